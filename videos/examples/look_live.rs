//! Draws people, to look at them: `look_live FOLDER` writes pictures there.

use std::path::Path;

use weir_truth::{FrameTruth, TruthAttribute};
use weir_videos::World;
use weir_videos::canvas::{Canvas, Picture, rgb};
use weir_videos::geometry::vec2;
use weir_videos::live::{Live, gallery_face, still};
use weir_videos::person::{Arms, Expression, Figure, Gesture, Head, Identity, draw_figure, draw_head};
use weir_videos::seed::{Part, Seed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    write(folder, "gallery", &gallery())?;
    write(folder, "turns", &turns())?;
    write(folder, "figures", &figures())?;
    for number in 0..8 {
        let (picture, truth) = still(Seed::new(Part::Train, number));
        write(
            folder,
            &format!("still-{number}"),
            &outlined(picture, &truth, number % 2 == 1),
        )?;
    }
    for number in 0..2 {
        let live = Live::new(Seed::new(Part::Clip, number));
        for second in 0..6 {
            let (picture, truth) = live.at(second as f32 * 1.7);
            write(
                folder,
                &format!("live-{number}-{second}"),
                &outlined(picture, &truth, second % 2 == 1),
            )?;
        }
    }
    write(folder, "faces", &faces())?;
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

/// Marks boxes (white what counts, red what is ignored) and key points that are seen.
fn outlined(mut picture: Picture, truth: &FrameTruth, wanted: bool) -> Picture {
    let mut dot = |x: f32, y: f32, colour: [u8; 3]| {
        let (x, y) = (x.clamp(0.0, 958.0) as usize, y.clamp(0.0, 538.0) as usize);
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let index = ((y + row) * 960 + x + column) * 3;
            picture.rgb[index..index + 3].copy_from_slice(&colour);
        }
    };
    for object in truth.objects.iter().filter(|_| wanted) {
        let [x0, y0, x1, y1] = object.r#box;
        let colour = if object.ignore {
            [255, 0, 0]
        } else {
            [255, 255, 255]
        };
        for step in 0..=400 {
            let part = step as f32 / 400.0;
            let (x, y) = (x0 + (x1 - x0) * part, y0 + (y1 - y0) * part);
            for (x, y) in [(x, y0), (x, y1), (x0, y), (x1, y)] {
                dot(x, y, colour);
            }
        }
        if let Some(TruthAttribute::Points(points)) = object.attributes.get("keypoints") {
            for point in points.iter().filter(|point| point.visible) {
                dot(point.x, point.y, [0, 255, 0]);
                dot(point.x - 2.0, point.y - 2.0, [255, 0, 255]);
            }
        }
    }
    picture
}

fn faces() -> Picture {
    let mut sheet = image::RgbImage::new(20 * 48, 4 * 96 / 2);
    for (number, view) in (0..20).flat_map(|number| (0..4).map(move |view| (number, view))) {
        let face = gallery_face(Part::Clip, number, view);
        for (x, y, pixel) in sheet.enumerate_pixels_mut() {
            if u64::from(x / 48) == number && y / 48 == view {
                let index = (((y % 48) * 2 * 96 + (x % 48) * 2) * 3) as usize;
                pixel.0.copy_from_slice(&face.rgb[index..index + 3]);
            }
        }
    }
    Picture {
        width: sheet.width(),
        height: sheet.height(),
        rgb: sheet.into_raw(),
    }
}

fn gallery() -> Picture {
    let mut canvas = Canvas::new(1000, 840, rgb(0xd8dce0));
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
    let mut canvas = Canvas::new(1200, 1000, rgb(0xd8dce0));
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
    let mut canvas = Canvas::new(1300, 900, rgb(0xd8dce0));
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
