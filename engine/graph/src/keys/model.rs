//! Keys of models.

use super::key::{SectionKey, ValueKind};

/// Larger batches are not useful on any device, and their items are held in memory.
pub(crate) const MAX_BATCH: u32 = 4_096;

/// Maximum standard deviation of the logarithm of a predicted length; predictions with more are of no use.
pub(crate) const MAX_LENGTH_ERROR: f64 = 2.0;

/// Servers of one model: each has slots of its own.
pub(crate) const MAX_SERVERS: usize = 64;

/// Keys of a model beside those of its head.
pub const MODEL: &[SectionKey] = &[
    SectionKey {
        name: "model",
        kind: ValueKind::TEXT,
        default: "required, but on emulated devices and model servers",
        about: "path of an ONNX file, zoo:NAME, or embedded:NAME",
        marks: &[],
    },
    SectionKey {
        name: "head",
        kind: ValueKind::TEXT,
        default: "known for models of the zoo and embedded ones; auto for files",
        about: "decoder of its outputs",
        marks: &[],
    },
    SectionKey {
        name: "device",
        kind: ValueKind::TEXT,
        default: "cpu",
        about: "cpu, cpu:NAME for a part of it, cuda:N or emulated:CLASS",
        marks: &[],
    },
    SectionKey {
        name: "devices",
        kind: ValueKind::TEXTS,
        default: "none",
        about: "instead of `device`: several devices of unequal speed, each with slots for this model alone",
        marks: &[],
    },
    SectionKey {
        name: "batch",
        kind: ValueKind::Batches(MAX_BATCH),
        default: "[1]",
        about: "batch sizes that it may run, ascending",
        marks: &[],
    },
    SectionKey {
        name: "workers",
        kind: ValueKind::integer(1, u32::MAX as i64),
        default: "all",
        about: "number of the device's slots on which it is placed",
        marks: &[],
    },
    SectionKey {
        name: "scaling",
        kind: ValueKind::Table("scaling"),
        default: "the number of workers is fixed",
        about: "instead of `workers`: workers open and close with the load",
        marks: &[],
    },
    SectionKey {
        name: "profile",
        kind: ValueKind::Profile,
        default: "measured",
        about: "durations by batch size, { \"1\" = \"8ms\" }, or a file with them; required on emulated devices",
        marks: &[],
    },
    SectionKey {
        name: "profiles",
        kind: ValueKind::Profiles,
        default: "none",
        about: "with `devices`: a `profile` for each device, by its name",
        marks: &[],
    },
    SectionKey {
        name: "preparation",
        kind: ValueKind::Profile,
        default: "no time",
        about: "on emulated devices: preparation time of inputs, by batch size",
        marks: &[],
    },
    SectionKey {
        name: "fail_every",
        kind: ValueKind::integer(1, u32::MAX as i64),
        default: "none",
        about: "on emulated devices: every Nth batch fails, such as every third for 3",
        marks: &[],
    },
    SectionKey {
        name: "lengths",
        kind: ValueKind::FILE,
        default: "the nets that it ships with",
        about: "of a generative model: file of nets that predict the lengths of its texts",
        marks: &[],
    },
    SectionKey {
        name: "length_error",
        kind: ValueKind::number(0.0, MAX_LENGTH_ERROR),
        default: "none",
        about: "on emulated devices, of a generative model: error of predicted lengths, as the standard deviation of their logarithms",
        marks: &[],
    },
    SectionKey {
        name: "memory",
        kind: ValueKind::BYTES,
        default: "measured on cpu, required elsewhere",
        about: "if its device has `memory`: memory of one session",
        marks: &[],
    },
    SectionKey {
        name: "open_cold",
        kind: ValueKind::DURATION,
        default: "no time",
        about: "on emulated devices: time to open it from its file",
        marks: &[],
    },
    SectionKey {
        name: "open_warm",
        kind: ValueKind::DURATION,
        default: "as open_cold",
        about: "on emulated devices: time to open it from host memory",
        marks: &[],
    },
    SectionKey {
        name: "provider",
        kind: ValueKind::words(&["cuda", "tensorrt"]),
        default: "cuda",
        about: "on a GPU: the execution provider",
        marks: &[],
    },
    SectionKey {
        name: "precision",
        kind: ValueKind::words(&["fp32", "tf32", "fp16"]),
        default: "fp32",
        about: "on a GPU: the precision of the computation; fp16 needs TensorRT",
        marks: &[],
    },
    SectionKey {
        name: "cuda_graphs",
        kind: ValueKind::FLAG,
        default: "false",
        about: "on a GPU with CUDA: the launches of a batch are recorded once per batch size and replayed as one",
        marks: &[],
    },
    SectionKey {
        name: "plan",
        kind: ValueKind::FILE,
        default: "none",
        about: "file of a plan that cuts the model and spreads it over [workers]",
        marks: &[],
    },
    SectionKey {
        name: "backend",
        kind: ValueKind::words(&["onnx", "kserve"]),
        default: "onnx",
        about: "the runtime: ONNX Runtime in this process, or model servers by KServe v2",
        marks: &[],
    },
    SectionKey {
        name: "url",
        kind: ValueKind::TextOrTexts(MAX_SERVERS),
        default: "none",
        about: "on model servers, where it is required: their addresses, http://HOST:PORT",
        marks: &[],
    },
    SectionKey {
        name: "name",
        kind: ValueKind::TEXT,
        default: "the name of the table",
        about: "on model servers: its name there",
        marks: &[],
    },
    SectionKey {
        name: "version",
        kind: ValueKind::TEXT,
        default: "the server's choice",
        about: "on model servers: its version there",
        marks: &[],
    },
    SectionKey {
        name: "token_file",
        kind: ValueKind::FILE,
        default: "none",
        about: "on model servers: file of a token that is sent with each call",
        marks: &[],
    },
    SectionKey {
        name: "timeout",
        kind: ValueKind::DURATION,
        default: "5s",
        about: "on model servers: timeout of a call",
        marks: &[],
    },
];

/// Largest number of workers of a model that follow the load.
const MAX_WORKERS: i64 = 512;

/// Keys of `scaling`.
pub const SCALING: &[SectionKey] = &[
    SectionKey {
        name: "least",
        kind: ValueKind::integer(1, MAX_WORKERS),
        default: "1",
        about: "workers that are always open",
        marks: &[],
    },
    SectionKey {
        name: "most",
        kind: ValueKind::integer(1, MAX_WORKERS),
        default: "the slots of its device",
        about: "workers at the highest load",
        marks: &[],
    },
    SectionKey {
        name: "headroom",
        kind: ValueKind::number(1.0, 10.0),
        default: "1.2",
        about: "capacity aimed at over the present rate",
        marks: &[],
    },
    SectionKey {
        name: "patience",
        kind: ValueKind::DURATION,
        default: "30s",
        about: "time for which fewer workers must have been sufficient before one is closed, at least two cold starts",
        marks: &[],
    },
];
