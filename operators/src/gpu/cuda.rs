//! The driver of CUDA: contexts, memory, the kernel. The only module that names `cudarc`, whose libraries are loaded when they are
//! used first, so that a build with CUDA starts without them.
//!
//! A device is used in its primary context, which is that of ONNX Runtime and of FFmpeg, so that addresses are the same for all.
//! Pictures are copied on the context's default stream, on which the decoder writes its surfaces; kernels run on a stream of
//! their own, after all copies that they read are over.
#![expect(
    unsafe_code,
    reason = "the driver is a C library that takes addresses in the memory of a device"
)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};

use cudarc::driver::sys::{self, CUDA_MEMCPY2D, CUmemorytype};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig,
    PushKernelArg, result,
};
use cudarc::nvrtc::{self, CompileOptions};
use weir_flow::{DevicePlanes, Image, Planes};

use super::pool::{DeviceMemory, DevicePool, PoolError, PooledBuffer};
use super::{DeviceFacts, SurfacePlanes};
use crate::pixels::InputSpec;
use crate::pixels::device::{DeviceItem, DeviceSampling, KERNEL_SOURCE};

/// Threads of a block, across and down.
const BLOCK: (u32, u32) = (16, 16);
/// Rows of a picture begin at multiples of so many bytes.
const PITCH_BYTES: u32 = 64;
/// Luma and chroma of black, for a picture that cannot be copied to the host.
const BLACK: [u8; 2] = [16, 128];

/// One GPU of this process.
pub(crate) struct CudaDevice {
    ordinal: u32,
    context: Arc<CudaContext>,
    copies: Arc<CudaStream>,
    kernels: Arc<CudaStream>,
    pool: DevicePool<CudaMemory>,
    /// Compiled when it is used first.
    kernel: OnceLock<Result<CudaFunction, String>>,
    warned: Once,
}

/// A picture on a device, and how it is sampled.
pub(crate) struct PlacedItem<'a> {
    pub(crate) image: &'a Image,
    pub(crate) sampling: DeviceSampling,
}

/// Room for an input in the memory of a device: a tensor of floats, borrowed.
pub(crate) struct DeviceRoom<'a> {
    ordinal: u32,
    address: u64,
    elements: usize,
    tensor: PhantomData<&'a mut f32>,
}

impl DeviceRoom<'_> {
    /// The `elements` floats from `address` on, which nothing else uses as long as what it borrows of is borrowed.
    pub(crate) fn new(ordinal: u32, address: u64, elements: usize) -> Self {
        Self {
            ordinal,
            address,
            elements,
            tensor: PhantomData,
        }
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

/// The GPUs that are in use, by number. A primary context is one a process, too.
static DEVICES: Mutex<BTreeMap<u32, Weak<CudaDevice>>> = Mutex::new(BTreeMap::new());

impl CudaDevice {
    /// The GPU `ordinal`; with `frame_bytes`, what pictures may take of its memory, where nothing uses it yet.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn open(ordinal: u32, frame_bytes: u64) -> Result<Arc<Self>, String> {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(Self::new(ordinal, frame_bytes)?);
        devices.insert(ordinal, Arc::downgrade(&device));
        Ok(device)
    }

    /// The GPU `ordinal` where something uses it.
    pub(crate) fn in_use(ordinal: u32) -> Option<Arc<Self>> {
        let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        devices.get(&ordinal).and_then(Weak::upgrade)
    }

    fn new(ordinal: u32, frame_bytes: u64) -> Result<Self, String> {
        let fail = |error: DriverError| format!("device cuda:{ordinal} cannot be used: {}", text(error));
        let context = context(ordinal)?;
        let copies = context.default_stream();
        let kernels = context.new_stream().map_err(fail)?;
        let memory = CudaMemory(Arc::clone(&copies));
        Ok(Self {
            ordinal,
            copies,
            kernels,
            pool: DevicePool::new(memory, frame_bytes),
            kernel: OnceLock::new(),
            warned: Once::new(),
            context,
        })
    }

    /// Name and memory of the GPU `ordinal`, as reported by the driver.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn facts(ordinal: u32) -> Result<DeviceFacts, String> {
        let context = context(ordinal)?;
        let (free, total) = context.mem_get_info().map_err(text)?;
        Ok(DeviceFacts {
            name: context.name().map_err(text)?,
            memory_bytes: total as u64,
            free_bytes: free as u64,
        })
    }

    /// Copies a surface into a buffer of the pool, after which the surface may be used again.
    ///
    /// # Errors
    /// The pool is full, or the driver fails.
    pub(crate) fn picture(self: &Arc<Self>, surface: &SurfacePlanes) -> Result<Arc<dyn Planes>, String> {
        let SurfacePlanes {
            addresses,
            pitches,
            size: (width, height),
        } = *surface;
        let row_bytes = u64::from(width.div_ceil(2)) * 2;
        let pitch = (row_bytes as u32).next_multiple_of(PITCH_BYTES);
        let luma_bytes = u64::from(pitch) * u64::from(height);
        let chroma_rows = height.div_ceil(2);
        let bytes = luma_bytes + u64::from(pitch) * u64::from(chroma_rows);
        let buffer = self
            .pool
            .lend(bytes)
            .map_err(|error: PoolError| error.to_string())?;
        let block = buffer.block().ok_or("the buffer was given back")?;
        let address = block.device_ptr(&self.copies).0;
        self.context.bind_to_thread().map_err(text)?;
        let row_bytes = row_bytes as usize;
        let planes = [
            (addresses[0], pitches[0], address, width as usize, height),
            (
                addresses[1],
                pitches[1],
                address + luma_bytes,
                row_bytes,
                chroma_rows,
            ),
        ];
        for (from, from_pitch, to, row_bytes, rows) in planes {
            let copy = CUDA_MEMCPY2D {
                srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                srcDevice: from,
                srcPitch: from_pitch,
                dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstDevice: to,
                dstPitch: pitch as usize,
                WidthInBytes: row_bytes,
                Height: rows as usize,
                srcXInBytes: 0,
                srcY: 0,
                srcHost: std::ptr::null(),
                srcArray: std::ptr::null_mut(),
                dstXInBytes: 0,
                dstY: 0,
                dstHost: std::ptr::null_mut(),
                dstArray: std::ptr::null_mut(),
            };
            // SAFETY: the surface has `rows` rows of its pitch, as FFmpeg says of it, and the buffer as many of its own; both stay
            // until the stream is synchronised below.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.copies.cu_stream()) }
                .result()
                .map_err(text)?;
        }
        self.copies.synchronize().map_err(text)?;
        Ok(Arc::new(DevicePicture {
            planes: DevicePlanes {
                ordinal: self.ordinal,
                luma: address,
                chroma: address + luma_bytes,
                luma_pitch: pitch,
                chroma_pitch: pitch,
            },
            luma_bytes: luma_bytes as usize,
            bytes: bytes as usize,
            device: Arc::clone(self),
            buffer,
            host: OnceLock::new(),
        }))
    }

    /// Prepares all `items` in one launch: planes of floats, item after item, into `room`, which has `rows` of them; those without
    /// an item become zero. Returns when they are there.
    ///
    /// # Errors
    /// Items or the room are not on this device or of another size, the kernel does not compile, or the driver fails.
    pub(crate) fn preprocess(
        &self,
        items: &[PlacedItem<'_>],
        spec: &InputSpec,
        rows: usize,
        room: &DeviceRoom<'_>,
    ) -> Result<(), String> {
        let here = |ordinal: u32| ordinal == self.ordinal;
        let is_here = |item: &PlacedItem<'_>| {
            item.image
                .planes
                .on_device()
                .is_some_and(|planes| here(planes.ordinal))
        };
        if !here(room.ordinal) || !items.iter().all(is_here) {
            return Err(format!("not all of the batch is on cuda:{}", self.ordinal));
        }
        if room.elements < rows * spec.len() || items.len() > rows {
            return Err("the batch is larger than its input".to_owned());
        }
        let list: Result<Vec<DeviceItem>, _> = items
            .iter()
            .filter_map(|item| Some((item, item.image.planes.on_device()?)))
            .map(|(item, planes)| DeviceItem::new(item.image, planes, &item.sampling, spec))
            .collect();
        self.launch(
            &list.map_err(|error| error.to_string())?,
            spec,
            rows,
            room.address,
        )
    }

    fn launch(&self, items: &[DeviceItem], spec: &InputSpec, rows: usize, out: u64) -> Result<(), String> {
        let kernel = self.kernel()?;
        let count = i32::try_from(items.len()).map_err(|_| "the batch is too large".to_owned())?;
        let list = self.kernels.clone_htod(items).map_err(text)?;
        let config = LaunchConfig {
            grid_dim: (
                spec.width.div_ceil(BLOCK.0),
                spec.height.div_ceil(BLOCK.1),
                count.unsigned_abs().max(1),
            ),
            block_dim: (BLOCK.0, BLOCK.1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.kernels.launch_builder(kernel);
        launch.arg(&list).arg(&count).arg(&out);
        // SAFETY: these are the arguments of the kernel, in its order. It reads pictures that `DevicePicture`s hold, which alone
        // are on a device and live as long as the batch, and writes a tensor that is borrowed and large enough, as was checked.
        unsafe { launch.launch(config) }.map_err(text)?;
        let bytes = |items: usize| items * spec.len() * size_of::<f32>();
        let rest = bytes(rows) - bytes(items.len());
        if rest > 0 {
            // SAFETY: these are the last rows of the same tensor.
            unsafe {
                result::memset_d8_async(out + bytes(items.len()) as u64, 0, rest, self.kernels.cu_stream())
            }
            .map_err(text)?;
        }
        self.kernels.synchronize().map_err(text)
    }

    /// Says once why inputs are prepared on the host.
    pub(crate) fn warn_once(&self, reason: &str) {
        let ordinal = self.ordinal;
        self.warned.call_once(|| {
            tracing::warn!("inputs of models on cuda:{ordinal} are prepared on the CPU: {reason}")
        });
    }

    fn kernel(&self) -> Result<&CudaFunction, String> {
        let compiled = self.kernel.get_or_init(|| {
            let function = compile(&self.context)?;
            function.load_function("preprocess").map_err(text)
        });
        compiled.as_ref().map_err(Clone::clone)
    }
}

/// Compiles the kernel. Products are not fused with sums, so that it computes what the CPU does; code for the oldest GPU that NVRTC
/// knows runs on all later ones.
fn compile(context: &Arc<CudaContext>) -> Result<Arc<cudarc::driver::CudaModule>, String> {
    // SAFETY: libraries of CUDA have no other conditions for being loaded.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        let hint = "install libnvrtc of the CUDA toolkit";
        return Err(format!(
            "libnvrtc, which compiles the CUDA kernels for pictures, is not found: {hint}"
        ));
    }
    let options = CompileOptions {
        fmad: Some(false),
        name: Some("preprocess.cu".to_owned()),
        ..CompileOptions::default()
    };
    let code = nvrtc::compile_ptx_with_opts(KERNEL_SOURCE, options)
        .map_err(|error| format!("the CUDA kernels for pictures do not compile: {error}"))?;
    context.load_module(code).map_err(text)
}

/// Lets threads that wait for the GPU `ordinal` sleep meanwhile, where nothing of this process uses it yet: they would take a core
/// each, and FFmpeg does not open a device whose context is another.
pub(crate) fn sleep_while_waiting(ordinal: u32) {
    // SAFETY: the driver's library has no other conditions for being loaded.
    if !unsafe { sys::is_culib_present() } || result::init().is_err() {
        return;
    }
    let device = i32::try_from(ordinal)
        .ok()
        .and_then(|ordinal| result::device::get(ordinal).ok());
    if let Some(device) = device {
        let sleep = sys::CUctx_flags_enum::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: it takes numbers. It fails where the context is in use, which then stays as it is.
        let _ = unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(device, sleep) };
    }
}

fn context(ordinal: u32) -> Result<Arc<CudaContext>, String> {
    // SAFETY: the driver's library has no other conditions for being loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(format!(
            "device cuda:{ordinal} cannot be used: libcuda.so.1 of the NVIDIA driver is not found"
        ));
    }
    sleep_while_waiting(ordinal);
    CudaContext::new(ordinal as usize)
        .map_err(|error| format!("device cuda:{ordinal} cannot be used: {}", text(error)))
}

/// A picture in a buffer of the pool.
struct DevicePicture {
    planes: DevicePlanes,
    luma_bytes: usize,
    bytes: usize,
    buffer: PooledBuffer<CudaMemory>,
    device: Arc<CudaDevice>,
    /// Its samples, once they are asked for on the host.
    host: OnceLock<Vec<u8>>,
}

impl DevicePicture {
    fn samples(&self) -> &[u8] {
        self.host.get_or_init(|| {
            self.copied().unwrap_or_else(|reason| {
                tracing::warn!(
                    "a picture on cuda:{} cannot be read: {reason}",
                    self.planes.ordinal
                );
                let mut black = vec![BLACK[0]; self.luma_bytes];
                black.resize(self.bytes, BLACK[1]);
                black
            })
        })
    }

    fn copied(&self) -> Result<Vec<u8>, String> {
        let block = self.buffer.block().ok_or("its buffer was given back")?;
        let mut samples = vec![0; self.bytes];
        let copies = &self.device.copies;
        copies
            .memcpy_dtoh(&block.slice(..self.bytes), samples.as_mut_slice())
            .map_err(text)?;
        copies.synchronize().map_err(text)?;
        Ok(samples)
    }
}

impl Planes for DevicePicture {
    fn plane(&self, index: usize) -> (&[u8], usize) {
        let (luma, chroma) = self.samples().split_at(self.luma_bytes);
        let pitch = self.planes.luma_pitch as usize;
        (if index == 0 { luma } else { chroma }, pitch)
    }

    fn on_device(&self) -> Option<DevicePlanes> {
        Some(self.planes)
    }
}

/// Memory of a device, in the order of the stream that copies pictures.
struct CudaMemory(Arc<CudaStream>);

impl DeviceMemory for CudaMemory {
    type Block = CudaSlice<u8>;

    fn allocate(&self, bytes: u64) -> Result<CudaSlice<u8>, String> {
        let bytes = usize::try_from(bytes).map_err(|_| "it is too large".to_owned())?;
        // SAFETY: any bytes are samples; those that are read were copied there before.
        unsafe { self.0.alloc(bytes) }.map_err(text)
    }
}

// SAFETY: it has the layout of the kernel's structure, without gaps, which a test checks with a C compiler.
unsafe impl DeviceRepr for DeviceItem {}

/// The driver's name of what went wrong, such as `CUDA_ERROR_OUT_OF_MEMORY`.
fn text(error: DriverError) -> String {
    format!("{:?}", error.0)
}
