//! Decoding on a device (CUDA, Quick Sync, VAAPI): the parts that FFmpeg's safe wrapper lacks. A decoder is given a device before it
//! is opened. FFmpeg then decodes there whatever the device can, and for CUDA and VAAPI all else on the CPU, picture format by picture
//! format. Quick Sync has decoders of its own, which fail on the rest: `stream_decoder.rs` replaces them.
//!
//! A CUDA device is used in its primary context, which is that of ONNX Runtime and of `gpu/cuda.rs`: addresses of one are addresses of
//! all. A decoder has few surfaces, so no picture that leaves this folder holds one.
#![expect(
    unsafe_code,
    reason = "FFmpeg's wrapper knows neither devices nor the frames that are in their memory"
)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use ffmpeg_next::codec::codec::Codec;
use ffmpeg_next::format::Pixel;
use ffmpeg_next::{Error, codec, ffi, frame};
use weir_flow::VideoDecoder;

use crate::gpu::SurfacePlanes;

/// Surfaces beyond those that the codec itself needs: one that is copied out while the next is decoded.
const EXTRA_SURFACES: i32 = 2;

/// Vendor of Intel's GPUs on the PCI bus.
const INTEL: &str = "0x8086";

/// Files of NVIDIA's driver, of which one exists where it is loaded; the last is that of WSL.
const CUDA_FILES: [&str; 3] = ["/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg"];

/// A device that decodes video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Accelerator {
    /// NVIDIA GPU with this ordinal.
    Cuda(u32),
    /// Quick Sync of an Intel GPU.
    Qsv,
    /// GPU of a render node.
    Vaapi,
}

impl Accelerator {
    /// The devices that `decoder = "auto"` tries, in their order.
    pub(crate) const AUTO: [Self; 3] = [Self::Cuda(0), Self::Qsv, Self::Vaapi];

    /// FFmpeg's name of the type of device.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cuda(_) => "cuda",
            Self::Qsv => "qsv",
            Self::Vaapi => "vaapi",
        }
    }

    fn device_type(self) -> ffi::AVHWDeviceType {
        match self {
            Self::Cuda(_) => ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_CUDA,
            Self::Qsv => ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_QSV,
            Self::Vaapi => ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_VAAPI,
        }
    }

    /// The decoder of a codec that takes this device; `None` where this FFmpeg has none.
    fn decoder_of(self, id: codec::Id) -> Option<Codec> {
        let decoder = match self {
            Self::Qsv => codec::decoder::find_by_name(&format!("{}_qsv", id.name())),
            Self::Cuda(_) | Self::Vaapi => codec::decoder::find(id),
        };
        decoder.filter(|decoder| takes_device(decoder, self.device_type()))
    }

    /// Why the device cannot be there, by the files of its driver alone; `None` where it may be.
    fn absence(self) -> Option<String> {
        match self {
            Self::Cuda(_) if CUDA_FILES.iter().any(|file| Path::new(file).exists()) => None,
            Self::Cuda(_) => Some("no NVIDIA driver is loaded".to_owned()),
            Self::Qsv => absence_of_node(&render_nodes(), true),
            Self::Vaapi => absence_of_node(&render_nodes(), false),
        }
    }

    /// Remedy for a device that FFmpeg cannot open.
    fn hint(self) -> &'static str {
        match self {
            Self::Cuda(_) => "`weir doctor` says what is missing",
            Self::Qsv => {
                "install Intel's media driver and runtime (Debian: intel-media-va-driver, libmfx1 or libmfx-gen1.2)"
            }
            Self::Vaapi => {
                "install the VAAPI driver of the GPU (Debian: intel-media-va-driver or mesa-va-drivers); `vainfo` shows it"
            }
        }
    }

    /// Whether this machine decodes by the device, opened to see that it does.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn probe(self) -> Result<(), String> {
        if let Some(reason) = self.absence() {
            return Err(reason);
        }
        let mut device = shared_device(self)?;
        // SAFETY: the reference is of this function alone.
        unsafe { ffi::av_buffer_unref(&raw mut device) };
        Ok(())
    }
}

/// A render node, and the vendor of its GPU as the kernel writes it; empty where it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RenderNode {
    pub(crate) path: PathBuf,
    pub(crate) vendor: String,
    /// Why this process cannot use it.
    pub(crate) problem: Option<String>,
}

/// The render nodes of this machine.
pub(crate) fn render_nodes() -> Vec<RenderNode> {
    let entries = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("renderD"))
        .collect();
    names.sort();
    let node = |name: String| {
        let path = Path::new("/dev/dri").join(&name);
        let vendor = std::fs::read_to_string(format!("/sys/class/drm/{name}/device/vendor"));
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        RenderNode {
            path,
            vendor: vendor.unwrap_or_default().trim().to_owned(),
            problem: opened.err().map(|error| error.to_string()),
        }
    };
    names.into_iter().map(node).collect()
}

/// Why none of the nodes can be used, and what to do; of Intel's GPUs alone where `intel`.
fn absence_of_node(nodes: &[RenderNode], intel: bool) -> Option<String> {
    if nodes.is_empty() {
        let hint = "load the driver of the GPU, or give it to the container (--device /dev/dri)";
        return Some(format!("there is no /dev/dri/renderD*: {hint}"));
    }
    let of_vendor = |node: &&RenderNode| !intel || node.vendor == INTEL || node.vendor.is_empty();
    let mut nodes = nodes.iter().filter(of_vendor).peekable();
    if nodes.peek().is_none() {
        return Some("no render node is of an Intel GPU: use \"vaapi\"".to_owned());
    }
    let mut problems = Vec::new();
    for node in nodes {
        let problem = node.problem.as_ref()?;
        problems.push(format!("{}: {problem}", node.path.display()));
    }
    let hint = "add the user to the group of the node (Debian: render)";
    Some(format!("{}: {hint}", problems.join(", ")))
}

/// FFmpeg's types of devices that this build of it has.
pub(crate) fn device_types() -> Vec<String> {
    let mut types = Vec::new();
    let mut last = ffi::AVHWDeviceType::AV_HWDEVICE_TYPE_NONE;
    loop {
        // SAFETY: any type is allowed; the name of one that was returned is a constant text of C.
        let name = unsafe {
            last = ffi::av_hwdevice_iterate_types(last);
            ffi::av_hwdevice_get_type_name(last)
        };
        if name.is_null() {
            return types;
        }
        // SAFETY: as above.
        types.push(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
    }
}

/// Gives the decoder of `context`, which is not open yet, a device; returns the decoder to open it as.
///
/// # Errors
/// Why the CPU decodes it: the codec, or the machine.
fn use_device(context: &mut codec::Context, accelerator: Accelerator) -> Result<Codec, String> {
    let (id, name) = (context.id(), accelerator.name());
    let decoder = accelerator
        .decoder_of(id)
        .ok_or_else(|| format!("this FFmpeg decodes no {} by {name}", id.name()))?;
    // Whether there is a driver for CUDA is left to FFmpeg, which knows machines without these files.
    if !matches!(accelerator, Accelerator::Cuda(_))
        && let Some(reason) = accelerator.absence()
    {
        return Err(reason);
    }
    let device = shared_device(accelerator)?;
    // SAFETY: the context is its own and not open yet. It owns the reference from here on, and drops it with itself. The format is
    // chosen by FFmpeg itself, which prefers that of a device that a decoder was given.
    unsafe {
        let raw = context.as_mut_ptr();
        (*raw).hw_device_ctx = device;
        (*raw).extra_hw_frames = EXTRA_SURFACES;
    }
    Ok(decoder)
}

/// FFmpeg's handle of a device. It is made once for all decoders, and kept as long as the process runs.
struct SharedDevice(*mut ffi::AVBufferRef);

// SAFETY: references to a buffer are counted by FFmpeg, from any thread; this one is only read.
unsafe impl Send for SharedDevice {}

static DEVICES: Mutex<BTreeMap<Accelerator, SharedDevice>> = Mutex::new(BTreeMap::new());

/// A reference to FFmpeg's handle of a device, which the caller has to drop.
fn shared_device(accelerator: Accelerator) -> Result<*mut ffi::AVBufferRef, String> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let device = match devices.entry(accelerator) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => place.insert(SharedDevice(open_device(accelerator)?)),
    };
    // SAFETY: the handle is one of FFmpeg's that is never dropped.
    let reference = unsafe { ffi::av_buffer_ref(device.0) };
    if reference.is_null() {
        return Err("FFmpeg is out of memory".to_owned());
    }
    Ok(reference)
}

fn open_device(accelerator: Accelerator) -> Result<*mut ffi::AVBufferRef, String> {
    // FFmpeg finds the render node of the others.
    let (number, flags, shown) = match accelerator {
        Accelerator::Cuda(ordinal) => {
            let number = CString::new(ordinal.to_string()).map_err(|error| error.to_string())?;
            (
                Some(number),
                ffi::AV_CUDA_USE_PRIMARY_CONTEXT,
                format!("cuda:{ordinal}"),
            )
        }
        Accelerator::Qsv | Accelerator::Vaapi => (None, 0, accelerator.name().to_owned()),
    };
    let number = number.as_ref().map_or(ptr::null(), |number| number.as_ptr());
    let mut device = ptr::null_mut();
    // SAFETY: the device is written before it is read, its number is null or a text of C, and there are no options.
    let made = unsafe {
        ffi::av_hwdevice_ctx_create(
            &raw mut device,
            accelerator.device_type(),
            number,
            ptr::null_mut(),
            flags,
        )
    };
    if made < 0 || device.is_null() {
        return Err(format!(
            "FFmpeg does not open {shown} ({}); {}",
            Error::from(made),
            accelerator.hint()
        ));
    }
    Ok(device)
}

/// Whether the decoder takes a device of this type.
fn takes_device(decoder: &Codec, device_type: ffi::AVHWDeviceType) -> bool {
    let by_device = ffi::AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX as i32;
    (0..)
        .map_while(|index| {
            // SAFETY: codecs live for ever; what is given for an index is null, or a constant of the codec.
            unsafe { ffi::avcodec_get_hw_config(decoder.as_ptr(), index).as_ref() }
        })
        .any(|config| config.device_type == device_type && config.methods & by_device != 0)
}

/// Whether the picture is in the memory of a device.
pub(super) fn is_surface(picture: &frame::Video) -> bool {
    matches!(picture.format(), Pixel::CUDA | Pixel::QSV | Pixel::VAAPI)
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

/// The device that decodes the stream of `context`, and the decoder to open it as; `None`: the CPU decodes it. The log says why where a
/// device was named.
pub(super) fn choose_device(
    context: &mut codec::Context,
    uri: &str,
    decoder: VideoDecoder,
) -> Option<(Accelerator, Codec)> {
    let named = match decoder {
        VideoDecoder::Cpu => return None,
        VideoDecoder::Auto => return first_device(context, uri),
        VideoDecoder::Cuda(ordinal) => Accelerator::Cuda(ordinal),
        VideoDecoder::Qsv => Accelerator::Qsv,
        VideoDecoder::Vaapi => Accelerator::Vaapi,
    };
    match use_device(context, named) {
        Ok(codec) => Some((named, codec)),
        Err(reason) => {
            warn_of_cpu(uri, &reason);
            None
        }
    }
}

/// Logs that the CPU decodes a stream for which a device was named.
pub(super) fn warn_of_cpu(uri: &str, reason: &str) {
    tracing::warn!(
        "{} is decoded on the CPU: {reason}",
        weir_flow::mask_credentials(uri)
    );
}

/// The first device of this machine that takes the codec.
fn first_device(context: &mut codec::Context, uri: &str) -> Option<(Accelerator, Codec)> {
    Accelerator::AUTO.into_iter().find_map(|accelerator| {
        // A device that is not there is left out by its files, since FFmpeg would log an error for each stream.
        let used = match accelerator.absence() {
            Some(reason) => Err(reason),
            None => use_device(context, accelerator),
        };
        let name = accelerator.name();
        match used {
            Ok(codec) => Some((accelerator, codec)),
            Err(reason) => {
                tracing::debug!(
                    "{} is not decoded by {name}: {reason}",
                    weir_flow::mask_credentials(uri)
                );
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_that_devices_decode_are_known() {
        let check = |accelerator: Accelerator, id: codec::Id, expected: Option<&str>| {
            let decoder = accelerator.decoder_of(id);
            let name = decoder.as_ref().map(Codec::name);
            assert_eq!(name, expected, "{} by {}", id.name(), accelerator.name());
        };
        check(Accelerator::Cuda(0), codec::Id::H264, Some("h264"));
        check(Accelerator::Cuda(0), codec::Id::HEVC, Some("hevc"));
        check(Accelerator::Cuda(0), codec::Id::FFV1, None);
        check(Accelerator::Cuda(0), codec::Id::PNG, None);
        let types = device_types();
        let of_build =
            |name: &str, decoder: &'static str| types.iter().any(|known| known == name).then_some(decoder);
        check(Accelerator::Vaapi, codec::Id::H264, of_build("vaapi", "h264"));
        check(Accelerator::Vaapi, codec::Id::PNG, None);
        check(Accelerator::Qsv, codec::Id::H264, of_build("qsv", "h264_qsv"));
        check(Accelerator::Qsv, codec::Id::FFV1, None);
    }

    #[test]
    fn an_absent_render_node_is_reported_with_a_remedy() {
        let node = |vendor: &str, problem: Option<&str>| RenderNode {
            path: "/dev/dri/renderD128".into(),
            vendor: vendor.to_owned(),
            problem: problem.map(str::to_owned),
        };
        let check = |nodes: &[RenderNode], intel: bool, expected: Option<&str>| {
            let found = absence_of_node(nodes, intel);
            let is_expected = match (&found, expected) {
                (Some(found), Some(part)) => found.contains(part),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{found:?}, not {expected:?}");
        };
        check(
            &[],
            false,
            Some("there is no /dev/dri/renderD*: load the driver of the GPU"),
        );
        check(&[node("0x1002", None)], false, None);
        check(
            &[node("0x1002", None)],
            true,
            Some("no render node is of an Intel GPU"),
        );
        check(&[node("0x1002", None), node(INTEL, None)], true, None);
        check(&[node("", None)], true, None);
        let denied = [node(INTEL, Some("Permission denied"))];
        check(
            &denied,
            true,
            Some("/dev/dri/renderD128: Permission denied: add the user to the group"),
        );
        check(&[denied[0].clone(), node(INTEL, None)], true, None);
    }

    #[test]
    fn a_missing_device_is_an_error_with_a_remedy() {
        for accelerator in [Accelerator::Qsv, Accelerator::Vaapi] {
            let decoder = codec::decoder::find(codec::Id::H264).expect("FFmpeg decodes it");
            let mut context = codec::Context::new_with_codec(decoder);
            // A machine with the device has nothing to report.
            let Err(reason) = use_device(&mut context, accelerator) else {
                continue;
            };
            let has_remedy = [
                "--device /dev/dri",
                "install",
                "add the user",
                "use \"vaapi\"",
                "this FFmpeg",
            ]
            .iter()
            .any(|remedy| reason.contains(remedy));
            assert!(has_remedy, "{}: {reason}", accelerator.name());
        }
    }

    #[test]
    fn pictures_of_the_host_are_no_surfaces() {
        let picture = frame::Video::new(Pixel::NV12, 64, 48);
        assert!(!is_surface(&picture));
        assert!(surface_planes(&picture).is_none());
        assert!(to_host(&picture).is_err());
    }
}
