use proptest::prelude::*;
use weir_flow::{ColorMatrix, Frame, PrivacyMask};

use super::super::ShownPicture;
use super::*;

const FORMATS: [PixelFormat; 6] = [
    PixelFormat::Yuv420,
    PixelFormat::Yuv422,
    PixelFormat::Yuv444,
    PixelFormat::Nv12,
    PixelFormat::Rgb24,
    PixelFormat::Gray8,
];

/// A picture whose samples differ from their neighbours and from black, with rows that are longer than the picture is wide.
fn picture(format: PixelFormat, width: u32, height: u32) -> Image {
    let planes = layout(format).into_iter().map(|PlaneLayout { channels, by }| {
        let stride = width.div_ceil(by.0) as usize * channels + 3;
        let rows = height.div_ceil(by.1) as usize;
        let value = |index: usize| 150 + (index / stride * 7 + index % stride * 13) % 100;
        let samples = (0..rows * stride).map(|index| value(index) as u8).collect();
        (samples, stride)
    });
    Image {
        width,
        height,
        format,
        matrix: ColorMatrix::Bt601,
        full_range: format == PixelFormat::Rgb24,
        planes: Arc::new(OwnedPlanes {
            planes: planes.collect(),
        }),
    }
}

/// All samples of the first plane that belong to a pixel.
fn luma(image: &Image, x: usize, y: usize) -> &[u8] {
    let channels = layout(image.format)[0].channels;
    let (samples, stride) = image.planes.plane(0);
    &samples[y * stride + x * channels..][..channels]
}

fn hidden(image: &Image, form: HiddenForm, shape: HiddenShape) -> Image {
    hide(image, HiddenParts::Areas(&[HiddenArea { form, shape }]))
}

/// Whether a point lies in a triangle, by the sides of its edges.
fn is_in(corners: &[Point; 3], x: f32, y: f32) -> bool {
    let side = |a: Point, b: Point| (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x);
    let [a, b, c] = *corners;
    let sides = [side(a, b), side(b, c), side(c, a)];
    sides.iter().all(|side| *side > 1e-3) || sides.iter().all(|side| *side < -1e-3)
}

proptest! {
    #[test]
    fn no_pixel_of_a_box_keeps_its_value_after_a_blackout(
        format in prop::sample::select(FORMATS.to_vec()),
        (width, height) in (1_u32..40, 1_u32..40),
        (x, y) in (-10.0_f32..40.0, -10.0_f32..40.0),
        (across, down) in (0.1_f32..60.0, 0.1_f32..60.0),
    ) {
        let image = picture(format, width, height);
        let rect = Rect::new(x, y, x + across, y + down);
        let shown = hidden(&image, HiddenForm::Blackout, HiddenShape::Box(rect));
        for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
            let (left, top) = (column as f32, row as f32);
            let touches = rect.x0 < left + 1.0 && rect.x1 > left && rect.y0 < top + 1.0 && rect.y1 > top;
            let (x, y) = (column as usize, row as usize);
            let is_kept = luma(&image, x, y) == luma(&shown, x, y);
            prop_assert_eq!(is_kept, !touches, "{} {}", x, y);
        }
    }

    #[test]
    fn no_pixel_of_a_polygon_keeps_its_value_after_a_blackout(
        format in prop::sample::select(FORMATS.to_vec()),
        corners in prop::array::uniform3((-10.0_f32..50.0, -10.0_f32..50.0)),
    ) {
        let image = picture(format, 37, 29);
        let corners = corners.map(|(x, y)| Point::new(x, y));
        let shown = hidden(&image, HiddenForm::Blackout, HiddenShape::Polygon(corners.to_vec()));
        for (y, x) in (0..29).flat_map(|y| (0..37).map(move |x| (y, x))) {
            if is_in(&corners, x as f32 + 0.5, y as f32 + 0.5) {
                prop_assert!(luma(&image, x, y) != luma(&shown, x, y), "{} {}", x, y);
            }
        }
    }

    #[test]
    fn at_most_eight_cells_span_what_is_blurred(
        format in prop::sample::select(FORMATS.to_vec()),
        (x, y) in (0_u16..20, 0_u16..20),
        (across, down) in (30_u16..90, 30_u16..90),
    ) {
        let image = picture(format, 120, 120);
        let (x, y, across, down) = (f32::from(x), f32::from(y), f32::from(across), f32::from(down));
        let rect = Rect::new(x, y, x + across, y + down);
        let shown = hidden(&image, HiddenForm::Blur, HiddenShape::Box(rect));
        let (left, top) = (x as usize, y as usize);
        let changes = |values: Vec<&[u8]>| values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let row = (left..left + across as usize).map(|x| luma(&shown, x, top + 3));
        let column = (top..top + down as usize).map(|y| luma(&shown, left + 3, y));
        prop_assert!(changes(row.collect()) < 8 && changes(column.collect()) < 8);
    }
}

#[test]
fn chroma_of_hidden_pixels_is_hidden_too() {
    for format in [PixelFormat::Yuv420, PixelFormat::Yuv422, PixelFormat::Nv12] {
        let image = picture(format, 20, 20);
        let rect = Rect::new(5.0, 5.0, 8.0, 8.0);
        let shown = hidden(&image, HiddenForm::Blackout, HiddenShape::Box(rect));
        let PlaneLayout { channels, by } = layout(format)[1];
        let at = |image: &Image, x: u32, y: u32| {
            let (samples, stride) = image.planes.plane(1);
            let place = (y / by.1) as usize * stride + (x / by.0) as usize * channels;
            samples[place..][..channels].to_vec()
        };
        for (x, y) in (5..8).flat_map(|x| (5..8).map(move |y| (x, y))) {
            assert_eq!(at(&shown, x, y), vec![128; channels], "{format:?} {x} {y}");
        }
        assert_eq!(at(&shown, 12, 12), at(&image, 12, 12), "{format:?}");
    }
}

#[test]
fn a_blackout_is_black_whatever_is_blurred_over_it() {
    let image = picture(PixelFormat::Yuv420, 40, 40);
    let area = |form| HiddenArea {
        form,
        shape: HiddenShape::Box(Rect::new(10.0, 10.0, 30.0, 30.0)),
    };
    let areas = [area(HiddenForm::Blackout), area(HiddenForm::Blur)];
    let shown = hide(&image, HiddenParts::Areas(&areas));
    assert_eq!(
        (luma(&shown, 20, 20), luma(&shown, 29, 29)),
        (&[16][..], &[16][..])
    );
    assert_eq!(luma(&shown, 35, 20), luma(&image, 35, 20));
}

#[test]
fn shapes_outside_of_the_picture_or_nowhere_hide_nothing() {
    let image = picture(PixelFormat::Nv12, 16, 12);
    for shape in [
        HiddenShape::Box(Rect::new(20.0, 0.0, 30.0, 12.0)),
        HiddenShape::Box(Rect::new(-9.0, -9.0, -1.0, -1.0)),
        HiddenShape::Box(Rect::new(f32::NAN, 0.0, 9.0, 9.0)),
        HiddenShape::Box(Rect::new(9.0, 9.0, 2.0, 2.0)),
        HiddenShape::Polygon(Vec::new()),
    ] {
        let shown = hidden(&image, HiddenForm::Blackout, shape.clone());
        let is_same = |y, x| luma(&shown, x, y) == luma(&image, x, y);
        assert!((0..12).all(|y| (0..16).all(|x| is_same(y, x))), "{shape:?}");
    }
    let far = HiddenShape::Box(Rect::new(-1e30, -1e30, 1e30, 1e30));
    let shown = hidden(&image, HiddenForm::Blur, far);
    assert_eq!(luma(&shown, 0, 0), luma(&shown, 15, 11));
}

#[test]
fn a_frame_without_known_objects_is_black() {
    let image = picture(PixelFormat::Yuv420, 16, 12);
    let mut frame = Frame::new(0, 0.0, image);
    assert_ne!(luma(ShownPicture::of(&frame).image(), 3, 3), [16]);
    frame.privacy = PrivacyMask::pending();
    let shown = ShownPicture::of(&frame);
    assert!((0..12).all(|y| (0..16).all(|x| luma(shown.image(), x, y) == [16])));
    frame.privacy.settle(Vec::new());
    assert_ne!(luma(ShownPicture::of(&frame).image(), 3, 3), [16]);
}
