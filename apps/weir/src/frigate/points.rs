//! Polygons as Frigate writes them: numbers between commas, in pixels of the detected picture or in parts of it.

use weir_analytics::transforms::read_polygon;

/// Width and height of the picture that pixels are of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Distance from the edge to a corner beyond it, as a part of the picture, up to which the corner is moved to the edge.
const BEYOND: f64 = 0.02;

/// A polygon in parts of the picture, as TOML.
///
/// # Errors
/// The reason why it is none.
pub(super) fn polygon(texts: &[&str], size: Option<Size>) -> Result<String, String> {
    let mut numbers = Vec::new();
    for text in texts.iter().flat_map(|text| text.split(',')) {
        let number = text.trim().parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        numbers.push(number.ok_or_else(|| format!("\"{}\" is no coordinate", text.trim()))?);
    }
    if numbers.len() % 2 != 0 {
        return Err("its coordinates are not pairs".to_owned());
    }
    // As in Frigate: pixels where one of them is above 1.
    let is_in_pixels = numbers.iter().any(|number| *number > 1.0);
    let scale = match size {
        _ if !is_in_pixels => [1.0, 1.0],
        Some(size) => [size.width, size.height],
        None => return Err("it is in pixels, and `detect` has no width and height".to_owned()),
    };
    let mut points: Vec<[f64; 2]> = Vec::new();
    for pair in numbers.chunks_exact(2) {
        let [x, y] = [pair[0] / scale[0], pair[1] / scale[1]];
        if x.max(y) > 1.0 + BEYOND {
            return Err("a corner lies outside of the picture".to_owned());
        }
        let point = [x, y].map(|part| (part.min(1.0) * 1e4).round() / 1e4);
        if points.last() != Some(&point) {
            points.push(point);
        }
    }
    if points.len() > 1 && points.first() == points.last() {
        points.pop();
    }
    let faults = |faults: Vec<weir_analytics::transforms::Fault>| {
        let first = faults.into_iter().next();
        first.map_or_else(|| "it is no polygon".to_owned(), |fault| fault.message)
    };
    read_polygon("points", points.clone()).map_err(faults)?;
    let points: Vec<String> = points.iter().map(|[x, y]| format!("[{x}, {y}]")).collect();
    Ok(format!("[{}]", points.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_and_parts_become_parts() {
        let size = Some(Size {
            width: 1280.0,
            height: 720.0,
        });
        let square = "[[0, 0], [0.5, 0], [0.5, 0.5], [0, 0.5]]";
        for texts in [
            &["0,0,640,0,640,360,0,360"][..],
            &["0,0,0.5,0,0.5,0.5,0,0.5"],
            &["0,0", "640,0", "640,360", "0,360", "0,0"],
        ] {
            assert_eq!(polygon(texts, size).as_deref(), Ok(square), "{texts:?}");
        }
        let wide = polygon(&["0,0,1281,0,1281,721,0,721"], size);
        assert_eq!(wide.as_deref(), Ok("[[0, 0], [1, 0], [1, 1], [0, 1]]"));
    }

    #[test]
    fn what_is_no_polygon_says_why() {
        let size = Some(Size {
            width: 100.0,
            height: 100.0,
        });
        for (text, size, words) in [
            ("0,0,50,0,50,50", None, "no width and height"),
            ("0,0,50,0,50", size, "not pairs"),
            ("0,0,x,0,50,50", size, "\"x\" is no coordinate"),
            ("0,0,-5,0,50,50", size, "no coordinate"),
            ("0,0,50,0", size, ""),
            ("0,0,1,1,1,0,0,1", size, ""),
            ("0,0,900,0,900,50", size, "outside"),
            ("", size, "no coordinate"),
        ] {
            let error = polygon(&[text], size).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
