//! Renders the faces of a gallery.

use std::fs;

use weir_flow::StopFlag;
use weir_terminal::output;
use weir_videos::GALLERY_VIEWS;
use weir_videos::live::gallery_face;
use weir_videos::person::Identity;

use crate::args::Gallery;
use crate::ordered::in_order;
use crate::unfinished::Unfinished;
use crate::{interrupted, threads};

/// Writes the pictures of all identities into a folder that takes its name when all are there.
pub(crate) fn gallery(args: &Gallery, stop: &StopFlag) -> anyhow::Result<()> {
    let folder = Unfinished::folder(&args.out)?;
    let views = u64::from(GALLERY_VIEWS);
    let of = |index: u64| (index / views, (index % views) as u32);
    let make = |index| {
        let (number, view) = of(index);
        gallery_face(args.part, number, view).png()
    };
    in_order(args.people * views, threads(None), make, |index, made| {
        if stop.is_raised() {
            return Err(interrupted());
        }
        let picture = made?;
        let (number, view) = of(index);
        // A folder for each name: of a file called p01.png the gallery would take the letters for the name.
        let person = folder.part().join(Identity::of(args.part, number).name());
        let file = person.join(format!("{}.png", view + 1));
        let written = fs::create_dir_all(person).and_then(|()| fs::write(file, picture));
        written.map_err(|error| folder.failed(&error))
    })?;
    folder.finish()?;
    output::say(&format!("{} identities in {}", args.people, args.out.display()))?;
    Ok(())
}
