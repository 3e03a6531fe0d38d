//! The kernel's source, compiled for the CPU, against what samples on the CPU: golden vectors of random pictures, regions and
//! maps.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use weir_flow::{ColorMatrix, OwnedPlanes, Point};

use super::*;
use crate::pixels::Sampler;

/// Stands for the parts of CUDA that the source uses, and runs a launch thread by thread: items and planes come by standard
/// input, floats go to standard output.
const SHIM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define __device__
#define __global__
typedef struct { unsigned x, y, z; } Index;
static Index blockIdx, blockDim, threadIdx;
#include "preprocess.cu"
static void take(void *to, size_t size) { if (fread(to, 1, size, stdin) != size) exit(2); }
int main(void) {
    unsigned long long head[5];
    Item *items; unsigned char *bytes; float *out;
    take(head, sizeof head);
    if (head[0] != sizeof(Item)) { fprintf(stderr, "an item has %zu bytes\n", sizeof(Item)); return 3; }
    items = malloc(head[1] * sizeof(Item)); bytes = malloc(head[2]); out = calloc(head[3], sizeof(float));
    take(items, head[1] * sizeof(Item)); take(bytes, head[2]);
    for (unsigned long long i = 0; i < head[1]; i++) {
        items[i].luma += (unsigned long long)bytes; items[i].chroma += (unsigned long long)bytes;
    }
    blockDim.x = 16; blockDim.y = 4; blockDim.z = 1;
    for (blockIdx.z = 0; blockIdx.z < head[1]; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y * blockDim.y < (unsigned)items[0].height; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x * blockDim.x < (unsigned)items[0].width; blockIdx.x++)
    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
        preprocess(items, (int)head[1], out);
    return fwrite(out, sizeof(float), head[3], stdout) == head[3] ? 0 : 4;
}
"#;

struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.below(10_000) as f32 / 10_000.0
    }
}

/// A picture with rows that are longer than its width.
struct Pitched {
    image: Image,
    bytes: Vec<u8>,
    planes: DevicePlanes,
}

fn picture(random: &mut Seeded) -> Pitched {
    let (width, height) = (random.below(90) as u32 + 2, random.below(70) as u32 + 2);
    let pitch = (width.div_ceil(2) * 2).next_multiple_of(32) + 32 * random.below(2) as u32;
    let rows = height as usize + height.div_ceil(2) as usize;
    let bytes: Vec<u8> = (0..rows * pitch as usize)
        .map(|_| random.below(256) as u8)
        .collect();
    let luma = height as usize * pitch as usize;
    let image = Image {
        width,
        height,
        format: PixelFormat::Nv12,
        matrix: [ColorMatrix::Bt601, ColorMatrix::Bt709, ColorMatrix::Bt2020][random.below(3) as usize],
        full_range: random.below(2) == 0,
        planes: Arc::new(OwnedPlanes {
            planes: vec![
                (bytes[..luma].to_vec(), pitch as usize),
                (bytes[luma..].to_vec(), pitch as usize),
            ],
        }),
    };
    let planes = DevicePlanes {
        ordinal: 0,
        luma: 0,
        chroma: luma as u64,
        luma_pitch: pitch,
        chroma_pitch: pitch,
    };
    Pitched { image, bytes, planes }
}

fn sampling(random: &mut Seeded, image: &Image) -> DeviceSampling {
    let (width, height) = (image.width as f32, image.height as f32);
    let x = [random.between(-9.0, width), random.between(0.0, width + 9.0)];
    let y = [random.between(-9.0, height), random.between(0.0, height + 9.0)];
    match random.below(4) {
        0 => DeviceSampling::Scale {
            rect: Rect::new(0.0, 0.0, width, height),
            letterbox: true,
        },
        1 => DeviceSampling::Scale {
            rect: Rect::new(x[0].min(x[1]), y[0].min(y[1]), x[0].max(x[1]), y[0].max(y[1])),
            letterbox: random.below(2) == 0,
        },
        // Nothing of it is in the picture, or nothing is in it.
        2 if random.below(3) == 0 => DeviceSampling::Scale {
            rect: Rect::new(width + 5.0, 0.0, width + random.between(5.0, 30.0), height),
            letterbox: false,
        },
        _ => {
            let mut near =
                |x: f32, y: f32| Point::new(x + random.between(-3.0, 3.0), y + random.between(-3.0, 3.0));
            let corners = [
                near(-5.0, 0.0),
                near(width, -4.0),
                near(width + 4.0, height),
                near(0.0, height),
            ];
            Projective::from_quad(corners, 24.0, 18.0).map_or(
                DeviceSampling::Scale {
                    rect: Rect::new(0.0, 0.0, width, height),
                    letterbox: false,
                },
                DeviceSampling::Warp,
            )
        }
    }
}

/// Compiles the kernel's source with the shim by the C compiler.
fn compiled(folder: &std::path::Path) -> PathBuf {
    std::fs::write(folder.join("preprocess.cu"), KERNEL_SOURCE).unwrap();
    std::fs::write(folder.join("shim.c"), SHIM).unwrap();
    let program = folder.join("shim");
    let built = Command::new("cc")
        .args(["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Werror", "-o"])
        .args([&program, &folder.join("shim.c")])
        .output()
        .expect("there is a C compiler, as Rust needs it to link");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

fn bytes_of(item: &DeviceItem) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| bytes.extend_from_slice(part);
    put(&item.luma.to_le_bytes());
    put(&item.chroma.to_le_bytes());
    item.map.iter().for_each(|value| put(&value.to_le_bytes()));
    for axis in [item.luma_x, item.luma_y, item.chroma_x, item.chroma_y] {
        put(&axis.start.to_le_bytes());
        put(&axis.step.to_le_bytes());
        for value in [axis.base, axis.factor, axis.cells, axis.size] {
            put(&value.to_le_bytes());
        }
    }
    let whole = [
        item.luma_pitch,
        item.chroma_pitch,
        item.width,
        item.height,
        item.mode,
        item.grid,
    ];
    let ranges = item.columns.iter().chain(&item.rows);
    let whole = whole
        .iter()
        .chain(ranges)
        .chain([&item.channels])
        .chain(&item.order);
    whole.for_each(|value| put(&value.to_le_bytes()));
    let real = item.convert.iter().chain(&item.bias).chain([&item.luma_bias]);
    let real = real.chain(&item.mean).chain(&item.scale).chain([&item.fill]);
    real.for_each(|value| put(&value.to_le_bytes()));
    bytes
}

#[test]
fn the_kernels_source_gives_what_the_cpu_samples() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let mut largest = 0.0_f32;
    for seed in 0..60 {
        let mut random = Seeded(seed);
        let spec = InputSpec {
            width: random.below(40) as u32 + 1,
            height: random.below(40) as u32 + 1,
            channels: [Channels::Rgb, Channels::Bgr, Channels::Luma][random.below(3) as usize],
            arrangement: Arrangement::Nchw,
            mean: [0.0, 103.5, 12.0],
            std: [255.0, 58.0, 128.0],
            fill: 114.0,
        };
        let (mut items, mut memory, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let count = random.below(4) + 1;
        for _ in 0..count {
            let Pitched {
                image,
                bytes,
                mut planes,
            } = picture(&mut random);
            planes.luma += memory.len() as u64;
            planes.chroma += memory.len() as u64;
            memory.extend(bytes);
            let sampling = sampling(&mut random, &image);
            let item = DeviceItem::new(&image, planes, &sampling, &spec).unwrap();
            items.extend(bytes_of(&item));
            let mut out = vec![f32::NAN; spec.len()];
            let mut sampler = Sampler::new();
            match &sampling {
                DeviceSampling::Scale {
                    rect,
                    letterbox: true,
                } => {
                    sampler.letterbox(&image, rect, &spec, &mut out);
                }
                DeviceSampling::Scale { rect, .. } => {
                    sampler.stretch(&image, rect, &spec, &mut out);
                }
                DeviceSampling::Warp(map) => sampler.warp(&image, map, &spec, &mut out),
            }
            expected.extend(out);
        }
        let mut input: Vec<u8> = Vec::new();
        let head = [
            size_of::<DeviceItem>() as u64,
            count,
            memory.len() as u64,
            expected.len() as u64,
            0,
        ];
        head.iter().for_each(|value| input.extend(value.to_le_bytes()));
        assert_eq!(
            items.len(),
            count as usize * size_of::<DeviceItem>(),
            "no gaps in the structure"
        );
        input.extend(items);
        input.extend(memory);
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "seed {seed}: {}", output.status);
        let found = output
            .stdout
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes));
        assert_eq!(found.len(), expected.len());
        let each = (spec.width * spec.height) as usize;
        for (at, (found, expected)) in found.zip(&expected).enumerate() {
            // In values of 0 to 255.
            let std = spec.std[(at / each) % spec.channels.count()];
            let apart = (found - expected).abs() * std;
            assert!(
                apart <= 1.0,
                "seed {seed}, element {at}: {found} instead of {expected}"
            );
            largest = largest.max(apart);
        }
    }
    println!("largest difference {largest:.4} of 255");
}

#[test]
fn what_a_device_does_not_prepare_is_refused() {
    let mut random = Seeded(1);
    let Pitched { image, planes, .. } = picture(&mut random);
    let sampling = DeviceSampling::Scale {
        rect: Rect::new(0.0, 0.0, 2.0, 2.0),
        letterbox: false,
    };
    let spec = InputSpec {
        width: 2,
        height: 2,
        channels: Channels::Rgb,
        arrangement: Arrangement::Nhwc,
        mean: [0.0; 3],
        std: [1.0; 3],
        fill: 0.0,
    };
    let refused = DeviceItem::new(&image, planes, &sampling, &spec).unwrap_err();
    assert_eq!(refused, DevicePixelsError::Interleaved);
    let image = Image {
        format: PixelFormat::Yuv420,
        ..image
    };
    let refused = DeviceItem::new(&image, planes, &sampling, &spec).unwrap_err();
    assert_eq!(refused, DevicePixelsError::Format(PixelFormat::Yuv420));
}
