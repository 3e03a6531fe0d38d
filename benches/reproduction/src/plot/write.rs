//! Writing a figure: both files beside their final place first, then renamed, so no reader ever sees half of one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::figure::{Figure, PlotError};
use super::{panel, raster, svg};

impl Figure {
    /// The figure as an SVG document.
    ///
    /// # Errors
    /// When it has no panels, a size out of bounds, or a series without one value for every category.
    pub fn svg(&self) -> Result<String, PlotError> {
        Ok(svg::document(&panel::scene(self)?))
    }

    /// The figure as a PNG file's bytes, 1.5 pixels for each figure unit.
    ///
    /// # Errors
    /// As [`Figure::svg`], or when the image could not be encoded.
    pub fn png(&self) -> Result<Vec<u8>, PlotError> {
        self.encoded(Path::new("in memory"))
    }

    /// Writes `stem.svg` and `stem.png`, each replaced at once. The folder must exist.
    ///
    /// # Errors
    /// As [`Figure::png`], or when a file could not be written.
    pub fn write(&self, stem: &Path) -> Result<(), PlotError> {
        let (svg, png) = (beside(stem, ".svg"), beside(stem, ".png"));
        let drawn = self.svg()?;
        let encoded = self.encoded(&png)?;
        replace(&svg, drawn.as_bytes())?;
        replace(&png, &encoded)
    }

    fn encoded(&self, path: &Path) -> Result<Vec<u8>, PlotError> {
        let image = raster::draw(&panel::scene(self)?);
        let fail = |source| PlotError::Encode {
            path: path.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, image.width, image.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().map_err(fail)?;
        writer.write_image_data(&image.rgb).map_err(fail)?;
        writer.finish().map_err(fail)?;
        Ok(bytes)
    }
}

/// The stem with an ending added; a dot in the stem stays.
fn beside(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    let fail = |source| PlotError::Write {
        path: path.to_owned(),
        source,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // Readable by all like any other file; the temporary default is the owner alone.
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o644));
    }
    let mut file = builder.tempfile_in(folder).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}
