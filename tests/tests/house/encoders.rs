//! Pictures of frames leave the engine by one door: only these files encode, and they take a `ShownPicture`, in which
//! everything is hidden that the camera hides.

use super::{assert_none, code, files, names, read, root, without_texts};

/// Names by which pictures are encoded.
const ENCODERS: &[&str] = &[
    "JpegEncoder",
    "PngEncoder",
    "WebPEncoder",
    "GifEncoder",
    "ImageEncoder",
    "write_to",
    "write_with_encoder",
    "save_with_format",
    "VideoFile",
    "PictureEncoder",
];

/// Files that encode pictures of frames.
const DOORS: &[&str] = &[
    "operators/src/pictures/jpeg.rs",
    "operators/src/sinks/mp4/png.rs",
    "operators/src/sinks/mp4/mod.rs",
];

/// Files that offer an encoder, and tests of decoders.
const OTHERS: &[&str] = &[
    "operators/src/media/video_file.rs",
    "operators/src/media/picture_encoder.rs",
    "operators/src/media/mod.rs",
    "operators/src/media/fuzz.rs",
];

#[test]
fn pictures_are_encoded_in_few_files_that_hide_what_cameras_hide() {
    let mut broken = Vec::new();
    let folders = ["operators/src", "engine", "apps", "bindings/python/src"];
    for path in folders
        .iter()
        .flat_map(|folder| files(&root().join(folder), &[".rs"]))
    {
        let is_listed = |list: &[&str]| list.iter().any(|file| path == root().join(file));
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        if is_test || is_listed(OTHERS) {
            continue;
        }
        let code = without_texts(&code(&read(&path)));
        if is_listed(DOORS) {
            if !names(&code, "ShownPicture") {
                broken.push(format!("{} encodes no ShownPicture", path.display()));
            }
            continue;
        }
        let used = ENCODERS.iter().filter(|name| names(&code, name));
        broken.extend(used.map(|name| {
            format!(
                "{} names {name}: encode by a file that takes a ShownPicture, or hide what the camera hides",
                path.display()
            )
        }));
    }
    assert_none(&broken);
}
