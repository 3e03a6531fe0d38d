//! Draws people, to look at them: `look_live FOLDER` writes pictures there.

use std::path::Path;

use weir_videos::canvas::{Canvas, Picture, rgb};
use weir_videos::geometry::vec2;
use weir_videos::person::{Arms, Expression, Figure, Gesture, Head, Identity, draw_figure, draw_head};
use weir_videos::seed::Part;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    write(folder, "gallery", &gallery())?;
    write(folder, "turns", &turns())?;
    write(folder, "figures", &figures())?;
    Ok(())
}

fn write(folder: &Path, name: &str, picture: &Picture) -> Result<(), image::ImageError> {
    let path = folder.join(format!("{name}.png"));
    image::save_buffer(
        path,
        &picture.rgb,
        picture.width,
        picture.height,
        image::ColorType::Rgb8,
    )
}

fn gallery() -> Picture {
    let mut canvas = Canvas::new(1000, 840, rgb(0xd8_dc_e0));
    for number in 0..20 {
        let (column, row) = (number % 5, number / 5);
        let head = Head {
            centre: vec2(100.0 + column as f32 * 200.0, 95.0 + row as f32 * 210.0),
            height: 130.0,
            ..Head::default()
        };
        draw_head(&mut canvas, &Identity::of(Part::Clip, number), &head);
    }
    canvas.picture()
}

fn turns() -> Picture {
    let mut canvas = Canvas::new(1200, 1000, rgb(0xd8_dc_e0));
    for row in 0..5_u64 {
        for column in 0..6 {
            let head = Head {
                centre: vec2(100.0 + column as f32 * 200.0, 95.0 + row as f32 * 200.0),
                height: 120.0,
                yaw: -45.0 + column as f32 * 18.0,
                pitch: -24.0 + row as f32 * 12.0,
                eyes: (-25.0 + column as f32 * 10.0, -14.0 + row as f32 * 7.0),
                expression: Expression::ALL[row as usize],
                ..Head::default()
            };
            draw_head(
                &mut canvas,
                &Identity::of(Part::Train, row * 6 + column as u64),
                &head,
            );
        }
    }
    canvas.picture()
}

fn figures() -> Picture {
    let mut canvas = Canvas::new(1300, 900, rgb(0xd8_dc_e0));
    for index in 0..16_u64 {
        let (column, row) = (index % 8, index / 8);
        let figure = Figure {
            feet: vec2(80.0 + column as f32 * 160.0, 400.0 + row as f32 * 430.0),
            height: 380.0,
            facing: if row == 0 {
                45.0 * column as f32
            } else {
                -20.0 + 6.0 * column as f32
            },
            stride: column as f32,
            pace: if row == 0 { 0.9 } else { 0.0 },
            arms: Arms::of(
                if row == 0 {
                    Gesture::Walk
                } else {
                    Gesture::ALL[column as usize]
                },
                1.0,
            ),
            ..Figure::default()
        };
        draw_figure(&mut canvas, &Identity::of(Part::Validation, index), &figure);
    }
    for index in 0..12_u64 {
        let figure = Figure {
            feet: vec2(30.0 + 50.0 * index as f32, 890.0),
            height: 50.0,
            facing: 30.0 * index as f32,
            pace: 0.8,
            stride: index as f32,
            ..Figure::default()
        };
        draw_figure(&mut canvas, &Identity::of(Part::Train, index), &figure);
    }
    canvas.picture()
}
