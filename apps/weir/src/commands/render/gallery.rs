//! The faces that a gallery knows.

use std::fs;

use weir_flow::StopFlag;
use weir_videos::{GALLERY, GALLERY_VIEWS, WorldKind, gallery_face};

use super::ordered::in_order;
use super::unfinished::Unfinished;
use super::{interrupted, missing, threads};
use crate::args::Gallery;
use crate::output;

/// Writes the pictures of all identities into a folder that takes its name when all are there.
pub(super) fn gallery(args: &Gallery, stop: &StopFlag) -> anyhow::Result<()> {
    let folder = Unfinished::folder(&args.out)?;
    let count = GALLERY * GALLERY_VIEWS;
    let of = |index: u64| (index / GALLERY_VIEWS, index % GALLERY_VIEWS);
    let make = |index| {
        let (number, view) = of(index);
        gallery_face(number, view).map(|picture| picture.png())
    };
    in_order(count, threads(None), make, |index, made| {
        if stop.raised() {
            return Err(interrupted());
        }
        let picture = made.ok_or_else(|| missing(WorldKind::Live))??;
        let (number, view) = of(index);
        // A folder for each name: of a file called p01.png the gallery would take the letters for the name.
        let person = folder.part().join(format!("p{:02}", number + 1));
        let file = person.join(format!("{}.png", view + 1));
        let written = fs::create_dir_all(person).and_then(|()| fs::write(file, picture));
        written.map_err(|error| folder.failed(&error))
    })?;
    folder.finish()?;
    output::say(&format!("{GALLERY} identities in {}", args.out.display()))?;
    Ok(())
}
