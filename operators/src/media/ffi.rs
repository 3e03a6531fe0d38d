//! The only unsafe code of media: gaps in FFmpeg's safe wrapper.
#![expect(
    unsafe_code,
    reason = "a converter may move between threads, streams have side data, and the log a receiver: its wrapper has none of \
              them"
)]

use ffmpeg_next::software::scaling;
use ffmpeg_next::{codec, format, frame};

/// A conversion of pixel formats and sizes that may move between threads.
pub(crate) struct Converter(scaling::Context);

// SAFETY: a context belongs to no thread; it must only not be used by two at once, and `run` takes `&mut self`.
unsafe impl Send for Converter {}

impl Converter {
    /// A bilinear conversion between two formats and sizes.
    fn new(from: scaling::context::Definition, to: scaling::context::Definition) -> Option<Self> {
        let flags = scaling::Flags::BILINEAR | scaling::Flags::ACCURATE_RND;
        scaling::Context::get(
            from.format,
            from.width,
            from.height,
            to.format,
            to.width,
            to.height,
            flags,
        )
        .ok()
        .map(Self)
    }

    /// The conversion in `slot`, which is made anew where it has other formats or sizes; `None` where there is none.
    pub(crate) fn between(
        slot: &mut Option<Self>,
        from: scaling::context::Definition,
        to: scaling::context::Definition,
    ) -> Option<&mut Self> {
        let fits = |own: &Self| *own.0.input() == from && *own.0.output() == to;
        if !slot.as_ref().is_some_and(fits) {
            *slot = Self::new(from, to);
        }
        slot.as_mut()
    }

    /// Converts one picture.
    pub(crate) fn run(
        &mut self,
        from: &frame::Video,
        to: &mut frame::Video,
    ) -> Result<(), ffmpeg_next::Error> {
        self.0.run(from, to)
    }
}

/// Extradata of the parameters of a stream; empty where there are none.
pub(super) fn extradata(parameters: &codec::Parameters) -> Vec<u8> {
    // SAFETY: parameters are never null where FFmpeg made them, and live as long as the reference to them; extradata are as
    // long as is said beside them.
    unsafe {
        let parameters = &*parameters.as_ptr();
        let length = usize::try_from(parameters.extradata_size).unwrap_or(0);
        if parameters.extradata.is_null() {
            Vec::new()
        } else {
            std::slice::from_raw_parts(parameters.extradata, length).to_vec()
        }
    }
}

/// Width, height and extradata of the parameters of a video.
pub(super) fn video_parameters(parameters: &codec::Parameters) -> (u32, u32, Vec<u8>) {
    // SAFETY: as in `extradata`.
    let (width, height) = unsafe {
        let parameters = &*parameters.as_ptr();
        (parameters.width, parameters.height)
    };
    (width.unsigned_abs(), height.unsigned_abs(), extradata(parameters))
}

/// Sets extradata, of which there are none. Returns whether there was memory for it.
pub(super) fn set_extradata(parameters: &mut codec::Parameters, extradata: &[u8]) -> bool {
    use ffmpeg_next::ffi;
    let padding = ffi::AV_INPUT_BUFFER_PADDING_SIZE as usize;
    let Ok(length) = i32::try_from(extradata.len()) else {
        return false;
    };
    // SAFETY: the parameters are their own, and not null but for want of memory; what was allocated is as long as what is
    // copied into it, with the padding that FFmpeg asks for, and is freed with the parameters.
    unsafe {
        let raw = parameters.as_mut_ptr();
        if raw.is_null() {
            return false;
        }
        if !extradata.is_empty() {
            let copy = ffi::av_mallocz(extradata.len() + padding).cast::<u8>();
            if copy.is_null() {
                return false;
            }
            std::ptr::copy_nonoverlapping(extradata.as_ptr(), copy, extradata.len());
            (*raw).extradata = copy;
            (*raw).extradata_size = length;
        }
    }
    true
}

/// Sets width, height, extradata and the tag of the codec in a container; 0: the container's own. Says whether there was memory
/// for it.
pub(super) fn set_video_parameters(
    parameters: &mut codec::Parameters,
    (width, height): (u32, u32),
    aspect: Option<(u32, u32)>,
    extradata: &[u8],
    tag: u32,
) -> bool {
    use ffmpeg_next::ffi;
    if !set_extradata(parameters, extradata) {
        return false;
    }
    // SAFETY: the parameters are their own, and not null, which was checked with the extradata.
    unsafe {
        let raw = parameters.as_mut_ptr();
        (*raw).width = width.cast_signed();
        (*raw).height = height.cast_signed();
        (*raw).codec_tag = tag;
        if let Some((wide, high)) = aspect {
            (*raw).sample_aspect_ratio = ffi::AVRational {
                num: wide.cast_signed(),
                den: high.cast_signed(),
            };
        }
    }
    true
}

/// Width of a pixel by its height as the container states it.
pub(super) fn sample_aspect(stream: &format::stream::Stream<'_>) -> Option<ffmpeg_next::Rational> {
    // SAFETY: the stream lives as long as the reference to it.
    let aspect = unsafe { (*stream.as_ptr()).sample_aspect_ratio };
    (aspect.num > 0 && aspect.den > 0).then(|| ffmpeg_next::Rational::new(aspect.num, aspect.den))
}

/// Gives a stream that is written a display matrix.
pub(super) fn set_display_matrix(stream: &mut format::stream::StreamMut<'_>, matrix: &[u8; 36]) {
    use ffmpeg_next::ffi;
    let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_DISPLAYMATRIX;
    #[cfg(not(ffmpeg_8))]
    // SAFETY: the stream lives as long as the reference to it, and owns what is allocated.
    let data = unsafe { ffi::av_stream_new_side_data(stream.as_mut_ptr(), kind, matrix.len()) };
    #[cfg(ffmpeg_8)]
    // SAFETY: the parameters of the stream live as long as the reference to it, and own what is allocated.
    let data = unsafe {
        let parameters = &mut *(*stream.as_mut_ptr()).codecpar;
        let made = ffi::av_packet_side_data_new(
            &raw mut parameters.coded_side_data,
            &raw mut parameters.nb_coded_side_data,
            kind,
            matrix.len(),
            0,
        );
        if made.is_null() {
            std::ptr::null_mut()
        } else {
            (*made).data
        }
    };
    if !data.is_null() {
        // SAFETY: as many bytes were allocated.
        unsafe { std::ptr::copy_nonoverlapping(matrix.as_ptr(), data, matrix.len()) };
    }
}

/// The display matrix that the container stores with a stream: nine native integers of four bytes. From FFmpeg 8 on it
/// is stored with the pictures instead.
pub(crate) fn display_matrix(stream: &format::stream::Stream<'_>) -> Option<[u8; 36]> {
    #[cfg(ffmpeg_8)]
    {
        let _ = stream;
        None
    }
    #[cfg(not(ffmpeg_8))]
    {
        use ffmpeg_next::ffi;
        let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_DISPLAYMATRIX;
        let mut size = 0;
        // SAFETY: the stream lives as long as the reference to it, and `size` is written before it is read.
        let data = unsafe { ffi::av_stream_get_side_data(stream.as_ptr(), kind, &raw mut size) };
        if data.is_null() || size < 36 {
            return None;
        }
        // SAFETY: the data belong to the stream, and are at least as long as what is copied here.
        Some(unsafe { data.cast::<[u8; 36]>().read_unaligned() })
    }
}

/// Passes FFmpeg's log on to [`super::log`]; `false` where that cannot be: how arguments of a C function without a fixed
/// number of them are passed differs by machine.
#[cfg(target_arch = "x86_64")]
pub(super) fn forward_log() -> bool {
    // SAFETY: the function has the type that FFmpeg calls, may be called by any thread, and stays for ever.
    unsafe { ffmpeg_next::ffi::av_log_set_callback(Some(on_message)) };
    true
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn forward_log() -> bool {
    false
}

/// Characters of a message that are read.
#[cfg(target_arch = "x86_64")]
const MAX_MESSAGE: usize = 1_024;

#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn on_message(
    object: *mut std::ffi::c_void,
    level: std::ffi::c_int,
    format: *const std::ffi::c_char,
    arguments: *mut ffmpeg_next::ffi::__va_list_tag,
) {
    use super::log;
    // A level may carry a colour in its second byte.
    let level = if level >= 0 { level & 0xff } else { level };
    // Nothing may unwind into C.
    if !std::panic::catch_unwind(|| log::is_wanted(level)).unwrap_or(false) {
        return;
    }
    let (mut line, mut prefix) = ([0_u8; MAX_MESSAGE], 1);
    // SAFETY: FFmpeg's own arguments are passed on as they are; the line is as long as is said, and is ended within it.
    unsafe {
        ffmpeg_next::ffi::av_log_format_line2(
            object,
            level,
            format,
            arguments,
            line.as_mut_ptr().cast(),
            MAX_MESSAGE as std::ffi::c_int,
            &raw mut prefix,
        );
    }
    if let Ok(line) = std::ffi::CStr::from_bytes_until_nul(&line) {
        let _ = std::panic::catch_unwind(|| log::on_message(level, &line.to_string_lossy()));
    }
}
