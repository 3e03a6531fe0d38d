//! The picture of a delivery. NumPy reads its planes where the decoder left them, by the array interface protocol.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir::flow::{self, Frame, PixelFormat};
use weir_operators::pixels::Sampler;

/// A decoded picture. Its planes stay where the decoder left them while anything of it is kept.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Image(pub(crate) Arc<Frame>);

#[pymethods]
impl Image {
    /// Width in pixels.
    #[getter]
    fn width(&self) -> u32 {
        self.0.image.width
    }

    /// Height in pixels.
    #[getter]
    fn height(&self) -> u32 {
        self.0.image.height
    }

    /// Pixel format: yuv420, yuv422, yuv444, nv12, rgb24 or gray8.
    #[getter]
    fn format(&self) -> &'static str {
        match self.0.image.format {
            PixelFormat::Yuv420 => "yuv420",
            PixelFormat::Yuv422 => "yuv422",
            PixelFormat::Yuv444 => "yuv444",
            PixelFormat::Nv12 => "nv12",
            PixelFormat::Rgb24 => "rgb24",
            PixelFormat::Gray8 => "gray8",
        }
    }

    /// The planes as NumPy arrays, without a copy and read-only: Y, U, V; Y and interleaved UV (nv12); RGB; or luma alone.
    fn planes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let count = match self.0.image.format {
            PixelFormat::Yuv420 | PixelFormat::Yuv422 | PixelFormat::Yuv444 => 3,
            PixelFormat::Nv12 => 2,
            PixelFormat::Rgb24 | PixelFormat::Gray8 => 1,
        };
        let plane = |index| Plane {
            frame: Arc::clone(&self.0),
            index,
        };
        (0..count).map(|index| array(py, plane(index))).collect()
    }

    /// The picture as an RGB array of shape (height, width, 3), which belongs to the caller: one conversion, no other copy.
    fn rgb<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let image = &self.0.image;
        check_samples(image, 0)?;
        let mut samples = py.detach(|| {
            let mut samples = Vec::new();
            Sampler::default().rgb(image, &mut samples);
            samples
        });
        let pixels = Pixels {
            width: image.width,
            height: image.height,
            address: samples.as_mut_ptr() as usize,
            _samples: samples,
        };
        array(py, pixels)
    }

    fn __repr__(&self) -> String {
        format!(
            "<weir.Image {}x{} {}>",
            self.width(),
            self.height(),
            self.format()
        )
    }
}

/// A plane of a picture.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Plane {
    frame: Arc<Frame>,
    index: usize,
}

#[pymethods]
impl Plane {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let image = &self.frame.image;
        let (rows, columns, channels) = shape(image.format, image.width, image.height, self.index);
        let (samples, stride) = check_samples(image, self.index)?;
        let interface = PyDict::new(py);
        if channels == 1 {
            interface.set_item("shape", (rows, columns))?;
            interface.set_item("strides", (stride, 1))?;
        } else {
            interface.set_item("shape", (rows, columns, channels))?;
            interface.set_item("strides", (stride, channels, 1))?;
        }
        // Others read the same samples, so nobody writes to them.
        describe(&interface, samples.as_ptr() as usize, true)?;
        Ok(interface)
    }
}

fn array<'py>(py: Python<'py>, pixels: impl IntoPyObject<'py>) -> PyResult<Bound<'py, PyAny>> {
    let missing = |_| PyImportError::new_err("pixels are given as NumPy arrays: pip install numpy");
    let numpy = py.import("numpy").map_err(missing)?;
    let pixels = pixels.into_bound_py_any(py)?;
    numpy.call_method1("asarray", (pixels,))
}

/// The samples of a plane from the first on, and the bytes from row to row.
fn check_samples(image: &flow::Image, plane: usize) -> PyResult<(&[u8], usize)> {
    let (rows, columns, channels) = shape(image.format, image.width, image.height, plane);
    let (samples, stride) = image.planes.plane(plane);
    let row = columns * channels;
    let needed = rows.saturating_sub(1) * stride + if rows > 0 { row } else { 0 };
    if samples.len() < needed || stride < row {
        let message = "the picture has fewer samples than its size says";
        return Err(PyValueError::new_err(message));
    }
    Ok((samples, stride))
}

/// Rows, columns and channels of a plane.
fn shape(format: PixelFormat, width: u32, height: u32, plane: usize) -> (usize, usize, usize) {
    let (width, height) = (width as usize, height as usize);
    let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
    match (format, plane) {
        (PixelFormat::Rgb24, _) => (height, width, 3),
        (_, 0) | (PixelFormat::Yuv444 | PixelFormat::Gray8, _) => (height, width, 1),
        (PixelFormat::Yuv420, _) => (half_height, half_width, 1),
        (PixelFormat::Yuv422, _) => (height, half_width, 1),
        (PixelFormat::Nv12, _) => (half_height, half_width, 2),
    }
}

fn describe(interface: &Bound<'_, PyDict>, address: usize, read_only: bool) -> PyResult<()> {
    interface.set_item("version", 3)?;
    interface.set_item("typestr", "|u1")?;
    interface.set_item("data", (address, read_only))
}

/// Packed RGB that belongs to Python alone.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Pixels {
    width: u32,
    height: u32,
    /// Of the first sample.
    address: usize,
    /// Read and written through the address alone.
    _samples: Vec<u8>,
}

#[pymethods]
impl Pixels {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.height as usize, self.width as usize, 3))?;
        interface.set_item("strides", py.None())?;
        describe(&interface, self.address, false)?;
        Ok(interface)
    }
}
