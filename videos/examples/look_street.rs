//! Writes pictures of the street to a folder: `look_street FOLDER [SEED]`.

use std::path::Path;

use weir_videos::street::{Light, Street, still};
use weir_videos::{Part, Picture, Seed, World};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder to write to")?;
    let number = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let folder = Path::new(&folder);
    for (name, light) in [("day", Light::Day), ("dusk", Light::Dusk)] {
        let street = Street::new(Seed::new(Part::Clip, number), light);
        for seconds in [2.0, 7.0, 17.0, 24.0] {
            let (picture, _) = street.at(seconds);
            write(&picture, &folder.join(format!("{name}-{seconds:04.1}.png")))?;
        }
    }
    for index in 0..8 {
        let (picture, truth) = still(Seed::new(Part::Train, number * 100 + index));
        write(&picture, &folder.join(format!("still-{index}.png")))?;
        std::fs::write(
            folder.join(format!("still-{index}.json")),
            serde_json::to_string(&truth)?,
        )?;
    }
    Ok(())
}

fn write(picture: &Picture, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let size = (picture.width, picture.height);
    let image =
        image::RgbImage::from_raw(size.0, size.1, picture.rgb.clone()).ok_or("a picture of its size")?;
    Ok(image.save(path)?)
}
