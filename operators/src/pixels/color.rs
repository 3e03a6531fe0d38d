//! Colour conversion from the samples of a picture to red, green, blue or luma.

use weir_flow::{ColorMatrix, Image};

use super::spec::Channels;

/// `R = gain * Y + red_v * V + bias[0]` and so on: the colour conversion of one picture, values 0..=255.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Conversion {
    gain: f32,
    red_v: f32,
    green_u: f32,
    green_v: f32,
    blue_u: f32,
    bias: [f32; 3],
    luma_bias: f32,
}

impl Conversion {
    /// The conversion of pictures like `image`.
    pub(crate) fn of(image: &Image) -> Self {
        let (kr, kb) = match image.matrix {
            ColorMatrix::Bt601 => (0.299, 0.114),
            ColorMatrix::Bt709 => (0.2126, 0.0722),
            ColorMatrix::Bt2020 => (0.2627, 0.0593),
        };
        let kg = 1.0 - kr - kb;
        let (gain, black, chroma): (f32, f32, f32) = if image.full_range {
            (1.0, 0.0, 1.0)
        } else {
            (255.0 / 219.0, 16.0, 255.0 / 224.0)
        };
        let red_v = 2.0 * (1.0 - kr) * chroma;
        let blue_u = 2.0 * (1.0 - kb) * chroma;
        let green_u = -blue_u * kb / kg;
        let green_v = -red_v * kr / kg;
        let dark = -gain * black;
        let bias = [
            dark - 128.0 * red_v,
            dark - 128.0 * (green_u + green_v),
            dark - 128.0 * blue_u,
        ];
        Self {
            gain,
            red_v,
            green_u,
            green_v,
            blue_u,
            bias,
            luma_bias: dark,
        }
    }

    /// Gain, red by V, green by U, green by V, blue by U; what is added to each colour; what is added to luma.
    #[cfg(any(test, feature = "cuda"))]
    pub(crate) fn coefficients(&self) -> ([f32; 5], [f32; 3], f32) {
        let factors = [self.gain, self.red_v, self.green_u, self.green_v, self.blue_u];
        (factors, self.bias, self.luma_bias)
    }

    /// Turns rows of Y, U, V into red, green, blue, in place.
    pub(crate) fn rows(&self, y: &mut [f32], u: &mut [f32], v: &mut [f32]) {
        for ((y, u), v) in y.iter_mut().zip(u).zip(v) {
            let [red, green, blue] = self.rgb(*y, *u, *v);
            (*y, *u, *v) = (red, green, blue);
        }
    }

    /// Converts one pixel to red, green and blue, each limited to 0..=255.
    pub(crate) fn rgb(&self, y: f32, u: f32, v: f32) -> [f32; 3] {
        let y = self.gain * y;
        [
            limit(y + self.red_v * v + self.bias[0]),
            limit(y + self.green_u * u + self.green_v * v + self.bias[1]),
            limit(y + self.blue_u * u + self.bias[2]),
        ]
    }

    /// Luma expanded to 0..=255.
    pub(crate) fn luma(&self, y: f32) -> f32 {
        limit(self.gain * y + self.luma_bias)
    }
}

/// Luma of a red-green-blue picture, by BT.601 as photographs are converted.
pub(crate) fn luma_of(red: f32, green: f32, blue: f32) -> f32 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

/// Clamps to 0..=255.
fn limit(value: f32) -> f32 {
    value.clamp(0.0, 255.0)
}

/// Index in red, green, blue of a channel of the input.
pub(crate) const fn source_of(channels: Channels, channel: usize) -> usize {
    match channels {
        Channels::Rgb => channel,
        Channels::Bgr => 2 - channel,
        Channels::Luma => 0,
    }
}
