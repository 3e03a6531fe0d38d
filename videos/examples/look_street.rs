//! Writes pictures of the street to a folder, with and without their boxes: `look_street FOLDER [SEED [STILLS]]`.

use std::path::Path;

use weir_videos::canvas::rgb;
use weir_videos::geometry::vec2;
use weir_videos::street::{Light, Street, still};
use weir_videos::{Canvas, FrameTruth, Part, Picture, Seed, World};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder to write to")?;
    let number: u64 = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let stills: u64 = arguments.next().map_or(Ok(8), |number| number.parse())?;
    let folder = Path::new(&folder);
    for (name, light) in Light::ALL {
        let street = Street::new(Seed::new(Part::Clip, number), light);
        for seconds in [2.0, 7.0, 17.0, 24.0] {
            write(&street.at(seconds), folder, &format!("{name}-{seconds:04.1}"))?;
        }
    }
    for index in 0..stills {
        let seed = Seed::new(Part::Train, number * 100 + index);
        write(&still(seed, None), folder, &format!("still-{index}"))?;
    }
    Ok(())
}

fn write((picture, truth): &(Picture, FrameTruth), folder: &Path, name: &str) -> Outcome {
    save(picture, &folder.join(format!("{name}.png")))?;
    std::fs::write(folder.join(format!("{name}.json")), serde_json::to_string(truth)?)?;
    let mut canvas = Canvas::from(picture);
    for object in &truth.objects {
        let [x0, y0, x1, y1] = object.r#box;
        let outline = [
            vec2(x0, y0),
            vec2(x1, y0),
            vec2(x1, y1),
            vec2(x0, y1),
            vec2(x0, y0),
        ];
        let colour = match (object.ignore, object.class.as_str()) {
            (true, _) => rgb(0x80_80_80),
            (_, "person") => rgb(0x30_ff_30),
            (_, "face") => rgb(0xff_30_ff),
            (_, "plate") => rgb(0x30_80_ff),
            (_, "bicycle") => rgb(0x30_ff_ff),
            _ => rgb(0xff_50_20),
        };
        canvas.line(&outline, 1.0, colour);
    }
    save(&canvas.picture(), &folder.join(format!("{name}-boxes.png")))
}

fn save(picture: &Picture, path: &Path) -> Outcome {
    let size = (picture.width, picture.height);
    let image =
        image::RgbImage::from_raw(size.0, size.1, picture.rgb.clone()).ok_or("a picture of its size")?;
    Ok(image.save(path)?)
}
