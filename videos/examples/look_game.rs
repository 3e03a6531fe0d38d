//! Draws stills and frames of game clips into a folder for inspection, with boxes if `--boxes` is given:
//! `cargo run --release -p weir-videos --example look_game -- FOLDER [--boxes]`.

use std::path::Path;

use weir_videos::canvas::Picture;
use weir_videos::game::{Game, still};
use weir_videos::{FrameTruth, Part, Seed, World};

fn save(folder: &Path, name: &str, (mut picture, truth): (Picture, FrameTruth), boxes: bool) {
    if boxes {
        outline(&mut picture, &truth);
    }
    let file = folder.join(format!("{name}.png"));
    image::save_buffer(
        &file,
        &picture.rgb,
        picture.width,
        picture.height,
        image::ColorType::Rgb8,
    )
    .expect("a folder that can be written to");
}

/// Draws the edges of all boxes: what is to be ignored in blue.
fn outline(picture: &mut Picture, truth: &FrameTruth) {
    for object in &truth.objects {
        let ink = if object.ignore {
            [60, 60, 255]
        } else {
            [255, 0, 255]
        };
        let [x0, y0, x1, y1] = object.r#box.map(|value| value as u32);
        let (x1, y1) = (x1.min(picture.width - 1), y1.min(picture.height - 1));
        let sides = (x0..=x1)
            .flat_map(|x| [(x, y0), (x, y1)])
            .chain((y0..=y1).flat_map(|y| [(x0, y), (x1, y)]));
        for (x, y) in sides {
            let at = ((y * picture.width + x) * 3) as usize;
            if let Some(pixel) = picture.rgb.get_mut(at..at + 3) {
                pixel.copy_from_slice(&ink);
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().map_or(".", String::as_str));
    let boxes = arguments.iter().any(|argument| argument == "--boxes");
    std::fs::create_dir_all(folder).expect("a folder that can be made");
    for number in 0..6 {
        let seed = Seed::new(Part::Train, number);
        save(folder, &format!("still{number}"), still(seed), boxes);
    }
    for number in 0..2 {
        let game = Game::new(Seed::new(Part::Clip, number));
        for frame in 0_u16..6 {
            let seconds = f32::from(frame) * 2.3;
            save(folder, &format!("clip{number}-{frame}"), game.at(seconds), boxes);
        }
    }
}
