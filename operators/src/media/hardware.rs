//! Decoding on a GPU, by FFmpeg's `cuda` acceleration: what its safe wrapper lacks. A decoder is given a device before it is opened;
//! FFmpeg then decodes there whatever the GPU can, and all else on the CPU, picture format by picture format, so that nothing is
//! lost either way.
//!
//! The device is used in its primary context, which is that of ONNX Runtime and of `gpu/cuda.rs`: addresses of one are addresses of
//! all. A decoder has few surfaces, so no picture that leaves this folder holds one.
#![expect(
    unsafe_code,
    reason = "FFmpeg's wrapper knows neither devices nor the frames that are in their memory"
)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use ffmpeg_next::format::Pixel;
use ffmpeg_next::{Error, codec, ffi, frame};
use weir_flow::DeviceKind;

use crate::gpu::SurfacePlanes;

/// Surfaces beyond those that the codec itself needs: one that is copied out while the next is decoded.
const EXTRA_SURFACES: i32 = 2;

/// Gives the decoder of `context`, which is not open yet, the GPU `ordinal`.
///
/// # Errors
/// Why it decodes on the CPU: the codec, or the machine.
pub(super) fn use_gpu(context: &mut codec::Context, ordinal: u32) -> Result<(), String> {
    let id = context.id();
    let name = id.name();
    let decoder = codec::decoder::find(id).ok_or_else(|| format!("there is no decoder of {name}"))?;
    if !has_gpu_decoder(&decoder) {
        return Err(format!("this FFmpeg decodes no {name} on a GPU"));
    }
    let device = shared_device(ordinal)?;
    // SAFETY: the context is its own and not open yet. It owns the reference from here on, and drops it with itself. The format is
    // chosen by FFmpeg itself, which prefers that of a device that a decoder was given.
    unsafe {
        let raw = context.as_mut_ptr();
        (*raw).hw_device_ctx = device;
        (*raw).extra_hw_frames = EXTRA_SURFACES;
    }
    Ok(())
}

/// FFmpeg's handle of a GPU. It is made once for all decoders, and kept as long as the process runs.
struct SharedDevice(*mut ffi::AVBufferRef);

// SAFETY: references to a buffer are counted by FFmpeg, from any thread; this one is only read.
unsafe impl Send for SharedDevice {}

static DEVICES: Mutex<BTreeMap<u32, SharedDevice>> = Mutex::new(BTreeMap::new());

/// A reference to FFmpeg's handle of the GPU `ordinal`, which the caller has to drop.
fn shared_device(ordinal: u32) -> Result<*mut ffi::AVBufferRef, String> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let device = match devices.entry(ordinal) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => place.insert(SharedDevice(open_device(ordinal)?)),
    };
    // SAFETY: the handle is one of FFmpeg's that is never dropped.
    let reference = unsafe { ffi::av_buffer_ref(device.0) };
    if reference.is_null() {
        return Err("FFmpeg is out of memory".to_owned());
    }
    Ok(reference)
}

fn open_device(ordinal: u32) -> Result<*mut ffi::AVBufferRef, String> {
    let number = CString::new(ordinal.to_string()).map_err(|error| error.to_string())?;
    let mut device = ptr::null_mut();
    // SAFETY: the device is written before it is read, its number is a text of C, and there are no options.
    let made = unsafe {
        ffi::av_hwdevice_ctx_create(
            &raw mut device,
            ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_CUDA,
            number.as_ptr(),
            ptr::null_mut(),
            ffi::AV_CUDA_USE_PRIMARY_CONTEXT,
        )
    };
    if made < 0 || device.is_null() {
        let hint = "`weir doctor` says what is missing";
        return Err(format!(
            "FFmpeg does not open cuda:{ordinal} ({}); {hint}",
            Error::from(made)
        ));
    }
    Ok(device)
}

/// Whether the decoder takes a device of CUDA.
fn has_gpu_decoder(decoder: &codec::codec::Codec) -> bool {
    let by_device = ffi::AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX as i32;
    (0..)
        .map_while(|index| {
            // SAFETY: codecs live for ever; what is given for an index is null, or a constant of the codec.
            unsafe { ffi::avcodec_get_hw_config(decoder.as_ptr(), index).as_ref() }
        })
        .any(|config| {
            config.device_type == ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_CUDA
                && config.methods & by_device != 0
        })
}

/// Whether the picture is in the memory of a GPU.
pub(super) fn is_surface(picture: &frame::Video) -> bool {
    picture.format() == Pixel::CUDA
}

/// The planes of a surface; `None` where they are not NV12 (ten bits, or full chroma).
#[cfg_attr(
    not(any(test, feature = "cuda")),
    expect(
        dead_code,
        reason = "a build without CUDA copies surfaces to the host by FFmpeg"
    )
)]
pub(super) fn surface_planes(picture: &frame::Video) -> Option<SurfacePlanes> {
    // SAFETY: the picture lives as long as the reference to it, and so does the description of its frames, which is null where
    // there is none.
    let (format, addresses, pitches) = unsafe {
        let raw = &*picture.as_ptr();
        let frames = raw
            .hw_frames_ctx
            .as_ref()?
            .data
            .cast::<ffi::AVHWFramesContext>()
            .as_ref()?;
        let addresses = [raw.data[0] as u64, raw.data[1] as u64];
        (frames.sw_format, addresses, [raw.linesize[0], raw.linesize[1]])
    };
    let pitches = [
        usize::try_from(pitches[0]).ok()?,
        usize::try_from(pitches[1]).ok()?,
    ];
    let is_nv12 = Pixel::from(format) == Pixel::NV12 && addresses.iter().all(|address| *address != 0);
    is_nv12.then_some(SurfacePlanes {
        addresses,
        pitches,
        size: (picture.width(), picture.height()),
    })
}

/// A copy of a surface in the memory of the host, with the picture's time stamps and colours.
///
/// # Errors
/// FFmpeg's.
pub(super) fn to_host(picture: &frame::Video) -> Result<frame::Video, Error> {
    // SAFETY: the picture lives as long as the reference to it.
    if unsafe { (*picture.as_ptr()).hw_frames_ctx.is_null() } {
        return Err(Error::InvalidData);
    }
    let mut host = frame::Video::empty();
    // SAFETY: both are frames of their own; the first is empty, so that its buffers are made as they are needed, and the second is
    // one of a device, which FFmpeg takes for granted.
    let copied = unsafe {
        match ffi::av_hwframe_transfer_data(host.as_mut_ptr(), picture.as_ptr(), 0) {
            0 => ffi::av_frame_copy_props(host.as_mut_ptr(), picture.as_ptr()),
            error => error,
        }
    };
    if copied < 0 {
        Err(Error::from(copied))
    } else {
        Ok(host)
    }
}

/// The GPU that decodes what `context` is for; `None`: the CPU does, and where a GPU was to, the log says why.
pub(super) fn decoding_gpu(context: &mut codec::Context, uri: &str, decoder: DeviceKind) -> Option<u32> {
    let DeviceKind::Cuda(ordinal) = decoder else {
        return None;
    };
    match use_gpu(context, ordinal) {
        Ok(()) => Some(ordinal),
        Err(reason) => {
            let uri = weir_flow::mask_credentials(uri);
            tracing::warn!("{uri} is decoded on the CPU: {reason}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_that_gpus_decode_are_known() {
        let check = |id: codec::Id, expected: bool| {
            let decoder = codec::decoder::find(id).expect("FFmpeg decodes it");
            assert_eq!(has_gpu_decoder(&decoder), expected, "{}", id.name());
        };
        check(codec::Id::H264, true);
        check(codec::Id::HEVC, true);
        check(codec::Id::FFV1, false);
        check(codec::Id::PNG, false);
    }

    #[test]
    fn pictures_of_the_host_are_no_surfaces() {
        let picture = frame::Video::new(Pixel::NV12, 64, 48);
        assert!(!is_surface(&picture));
        assert!(surface_planes(&picture).is_none());
        assert!(to_host(&picture).is_err());
    }
}
