//! The schema of models.

use serde_json::{Value, json};
use weir_flow::Catalog;

use super::shapes::{closed, flag, integer, merge, number, properties, spec_properties, text, texts, words};

/// One of the heads, or, where a model is known by name, the keys of any.
pub(super) fn model(catalog: &Catalog) -> Value {
    let durations = json!({ "anyOf": [
        text(),
        { "type": "object", "additionalProperties": { "type": "string" } },
    ] });
    let batch = json!({ "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 1, "maximum": 4096 } });
    let shared = properties(&[
        (
            "model",
            text(),
            "The path of an ONNX file, zoo:NAME, or embedded:NAME.",
        ),
        (
            "device",
            text(),
            "cpu, cpu:NAME for a part of it, cuda:N or emulated:CLASS; default cpu.",
        ),
        (
            "devices",
            texts(),
            "Instead of device: several devices of unequal speed, each with slots for this model alone.",
        ),
        (
            "batch",
            batch,
            "The batch sizes that it may run, ascending; default [1].",
        ),
        (
            "workers",
            integer(1),
            "Number of the device's slots on which it is placed; default all.",
        ),
        (
            "plan",
            text(),
            "The file of a plan that cuts the model and spreads it over [workers].",
        ),
        (
            "profile",
            durations.clone(),
            "Durations by batch size, { \"1\" = \"8ms\" }, or a file with them; default measured.",
        ),
        (
            "profiles",
            json!({ "type": "object", "additionalProperties": durations.clone() }),
            "With `devices`: a `profile` for each device, by its name.",
        ),
        (
            "preparation",
            durations,
            "On emulated devices: preparation time of inputs, by batch size.",
        ),
        (
            "provider",
            words(&["cuda", "tensorrt"]),
            "On a GPU: the execution provider; default cuda.",
        ),
        (
            "precision",
            words(&["fp32", "tf32", "fp16"]),
            "On a GPU: the precision of the computation; default fp32. fp16 needs TensorRT.",
        ),
        (
            "cuda_graphs",
            flag(),
            "On a GPU with CUDA: the launches of a batch are recorded once per batch size and replayed as one; default false.",
        ),
        (
            "memory",
            text(),
            "Memory of one session, such as \"20MiB\", if its device has `memory`; default measured on cpu, required elsewhere.",
        ),
        (
            "open_cold",
            text(),
            "On emulated devices: time to open it from its file; default no time.",
        ),
        (
            "open_warm",
            text(),
            "On emulated devices: time to open it from host memory; default as open_cold.",
        ),
        (
            "fail_every",
            integer(1),
            "On emulated devices: every Nth batch fails, such as every third for 3.",
        ),
        (
            "lengths",
            text(),
            "Of a generative model: the file of nets that predict the lengths of its texts; default the nets that it ships with.",
        ),
        (
            "length_error",
            number(0.0, 2.0),
            "On emulated devices, of a generative model: error of predicted lengths, as the standard deviation of their logarithms.",
        ),
        (
            "backend",
            words(&["onnx", "kserve"]),
            "The runtime: ONNX Runtime in this process, or model servers by KServe v2; default onnx.",
        ),
        (
            "url",
            json!({ "anyOf": [text(), texts()] }),
            "On model servers: their addresses, http://HOST:PORT.",
        ),
        (
            "name",
            text(),
            "On model servers: its name there; default the name of the table.",
        ),
        (
            "version",
            text(),
            "On model servers: its version there; default the server's choice.",
        ),
        (
            "token_file",
            text(),
            "On model servers: the file of a token that is sent with each call.",
        ),
        (
            "timeout",
            text(),
            "On model servers: timeout of a call; default 5s.",
        ),
    ]);
    let mut variants = Vec::new();
    let mut all = shared.clone();
    for head in &catalog.heads {
        let mut keys = shared.clone();
        keys.insert(
            "head".to_owned(),
            json!({ "const": head.name, "description": head.about }),
        );
        for (name, value) in spec_properties(&head.keys) {
            merge(&mut all, &name, &value);
            keys.insert(name, value);
        }
        variants.push(closed(&["head"], keys));
    }
    variants.push(closed(&[], all));
    json!({ "oneOf": variants })
}
