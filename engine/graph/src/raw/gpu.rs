//! Keys of a model that say how it is run on a GPU.

use weir_config::Fields;

use super::context::Context;
use crate::gpu_settings::{GpuPrecision, GpuProvider, GpuSettings};

const PROVIDERS: [(&str, GpuProvider); 2] =
    [("cuda", GpuProvider::Cuda), ("tensorrt", GpuProvider::TensorRt)];
const PRECISIONS: [(&str, GpuPrecision); 3] = [
    ("fp32", GpuPrecision::Fp32),
    ("tf32", GpuPrecision::Tf32),
    ("fp16", GpuPrecision::Fp16),
];

/// Reads them. They are refused where the model is on no GPU, and where one keeps another from its meaning.
pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> GpuSettings {
    let diagnostics = &mut *context.diagnostics;
    let gpu = GpuSettings {
        provider: fields
            .word("provider", &PROVIDERS, diagnostics)
            .into_value()
            .unwrap_or_default(),
        precision: fields
            .word("precision", &PRECISIONS, diagnostics)
            .into_value()
            .unwrap_or_default(),
        graphs: fields
            .flag("cuda_graphs", diagnostics)
            .into_value()
            .unwrap_or_default(),
    };
    let device = fields.peek("device");
    if !device.is_some_and(|device| device.value.starts_with("cuda:")) {
        for key in ["provider", "precision", "cuda_graphs"] {
            if let Some(entry) = fields.entry(key) {
                let message = format!("`{key}` is for models on a GPU, and {} is on none", fields.owner);
                let hint = "remove it, or set device = \"cuda:0\"".to_owned();
                diagnostics.add(entry.at, message, Some(hint));
            }
        }
        return gpu;
    }
    if let Some(entry) = fields.entry("precision")
        && gpu.precision == GpuPrecision::Fp16
        && gpu.provider != GpuProvider::TensorRt
    {
        let message = "`precision = \"fp16\"` is computed by TensorRT alone: CUDA computes a model in the numbers of its file";
        let hint = "add provider = \"tensorrt\", or set precision = \"tf32\"".to_owned();
        diagnostics.add(entry.at, message, Some(hint));
    }
    if let Some(entry) = fields.entry("cuda_graphs")
        && gpu.graphs
        && gpu.provider == GpuProvider::TensorRt
    {
        let message = "`cuda_graphs` is for the provider \"cuda\": graphs of TensorRT give the result of the first input for all";
        diagnostics.add(entry.at, message, Some("leave it out".to_owned()));
    }
    gpu
}
