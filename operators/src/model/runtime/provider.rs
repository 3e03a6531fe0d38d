//! Execution providers that run a model on a GPU, and their options: plain values, by the keys of ONNX
//! Runtime.

use std::fmt::Write as _;
use std::path::PathBuf;

/// Execution provider of a model on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    /// cuDNN and cuBLAS, layer by layer.
    #[default]
    Cuda,
    /// TensorRT: engines that are built for this GPU when the model is opened first, and kept.
    TensorRt,
}

/// In which numbers layers are computed. Inputs and outputs are single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Single precision, as on the CPU.
    #[default]
    Full,
    /// Products of single precision with a mantissa of ten bits, where the GPU has them.
    Tf32,
    /// Half precision where TensorRT finds it faster.
    Half,
}

/// Options for running a model on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuOptions {
    /// Execution provider that runs the layers.
    pub provider: Provider,
    /// Numeric precision of the layers.
    pub precision: Precision,
    /// Whether the launches of a batch are recorded once by batch size, and then replayed as one.
    pub graphs: bool,
    /// Batch sizes that it will be asked for, ascending. A session runs each of them when it is opened: what it does first with a
    /// size takes up to seconds. Batches of fewer items are filled up to the next of them.
    pub batches: Vec<u32>,
    /// Number of threads that share the inputs of a batch, if inputs are prepared on the host; at least 1.
    pub prepare_threads: usize,
    /// Folder in which engines and timings of TensorRT are kept; built anew each time where there is none.
    pub cache: Option<PathBuf>,
}

/// A provider of ONNX Runtime with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderOptions {
    pub(crate) provider: Provider,
    pub(crate) options: Vec<(&'static str, String)>,
}

impl GpuOptions {
    /// The providers of a session on GPU `ordinal`, the first before the others: what it does not take goes to the next. The input
    /// is named `input`, and one item of it has the shape `item`.
    #[cfg_attr(
        not(any(test, feature = "cuda")),
        expect(dead_code, reason = "a build without CUDA registers none")
    )]
    pub(crate) fn providers(&self, ordinal: u32, input: &str, item: &[usize]) -> Vec<ProviderOptions> {
        let cuda = ProviderOptions {
            provider: Provider::Cuda,
            options: self.cuda(ordinal),
        };
        match self.provider {
            Provider::Cuda => vec![cuda],
            Provider::TensorRt => {
                let options = self.tensorrt(ordinal, input, item);
                let first = ProviderOptions {
                    provider: Provider::TensorRt,
                    options,
                };
                vec![first, cuda]
            }
        }
    }

    /// Rows of an input with `items`: those of the smallest batch size that has room for them, so that few shapes are run.
    pub(crate) fn rows(&self, items: usize) -> usize {
        let sizes = self.batches.iter().map(|size| *size as usize);
        sizes.filter(|size| *size >= items).min().unwrap_or(items)
    }

    /// Whether batches are recorded and replayed.
    pub(crate) fn has_graphs(&self) -> bool {
        self.graphs && self.provider == Provider::Cuda
    }

    fn cuda(&self, ordinal: u32) -> Vec<(&'static str, String)> {
        vec![
            ("device_id", ordinal.to_string()),
            // A larger arena than what is asked for would be lost to other sessions.
            ("arena_extend_strategy", "kSameAsRequested".to_owned()),
            // To try all algorithms of each layer would take seconds for every batch size, in every session.
            ("cudnn_conv_algo_search", "HEURISTIC".to_owned()),
            ("use_tf32", flag(self.precision != Precision::Full)),
            ("enable_cuda_graph", flag(self.has_graphs())),
        ]
    }

    fn tensorrt(&self, ordinal: u32, input: &str, item: &[usize]) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("device_id", ordinal.to_string()),
            ("trt_fp16_enable", flag(self.precision == Precision::Half)),
            // Its own graphs give the result of the first input for every other (onnxruntime #20050).
            ("trt_cuda_graph_enable", flag(false)),
        ];
        if let Some(cache) = &self.cache {
            let cache = cache.to_string_lossy();
            options.extend([
                ("trt_engine_cache_enable", flag(true)),
                ("trt_engine_cache_path", cache.clone().into_owned()),
                ("trt_timing_cache_enable", flag(true)),
                ("trt_timing_cache_path", cache.into_owned()),
            ]);
        }
        if let (Some(least), Some(most)) = (self.batches.first(), self.batches.last()) {
            let shape = |rows: u32| {
                let mut text = format!("{input}:{rows}");
                for size in item {
                    let _ = write!(text, "x{size}");
                }
                text
            };
            options.extend([
                ("trt_profile_min_shapes", shape(*least)),
                ("trt_profile_opt_shapes", shape(*most)),
                ("trt_profile_max_shapes", shape(*most)),
            ]);
        }
        options
    }
}

fn flag(on: bool) -> String {
    if on { "1" } else { "0" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &GpuOptions, expected: &[(Provider, &[(&str, &str)])]) {
        let providers = options.providers(1, "images", &[3, 416, 416]);
        let found: Vec<(Provider, Vec<(&str, &str)>)> = providers
            .iter()
            .map(|provider| {
                let options = provider.options.iter().map(|(key, value)| (*key, &**value));
                (provider.provider, options.collect())
            })
            .collect();
        let expected: Vec<(Provider, Vec<(&str, &str)>)> = expected
            .iter()
            .map(|(name, options)| (*name, options.to_vec()))
            .collect();
        assert_eq!(found, expected);
    }

    const PLAIN: &[(&str, &str)] = &[
        ("device_id", "1"),
        ("arena_extend_strategy", "kSameAsRequested"),
        ("cudnn_conv_algo_search", "HEURISTIC"),
        ("use_tf32", "0"),
        ("enable_cuda_graph", "0"),
    ];

    #[test]
    fn cuda_computes_as_the_cpu_does_unless_it_is_asked_for_less() {
        check(&GpuOptions::default(), &[(Provider::Cuda, PLAIN)]);
        let faster = GpuOptions {
            precision: Precision::Tf32,
            graphs: true,
            batches: vec![1, 8],
            ..GpuOptions::default()
        };
        let options = &[
            ("device_id", "1"),
            ("arena_extend_strategy", "kSameAsRequested"),
            ("cudnn_conv_algo_search", "HEURISTIC"),
            ("use_tf32", "1"),
            ("enable_cuda_graph", "1"),
        ];
        check(&faster, &[(Provider::Cuda, options)]);
    }

    #[test]
    fn inputs_are_filled_up_to_the_next_batch_size() {
        let options = GpuOptions {
            batches: vec![1, 4, 16],
            ..GpuOptions::default()
        };
        assert_eq!(
            [1, 2, 4, 5, 16, 17].map(|items| options.rows(items)),
            [1, 4, 4, 16, 16, 17]
        );
        assert_eq!(GpuOptions::default().rows(3), 3, "sizes that nobody named");
    }

    #[test]
    fn tensorrt_has_the_batches_as_profile_its_caches_and_no_graph_of_its_own() {
        let half = GpuOptions {
            provider: Provider::TensorRt,
            precision: Precision::Half,
            graphs: true,
            batches: vec![1, 4, 16],
            prepare_threads: 1,
            cache: Some("/cache".into()),
        };
        let tensorrt: &[(&str, &str)] = &[
            ("device_id", "1"),
            ("trt_fp16_enable", "1"),
            ("trt_cuda_graph_enable", "0"),
            ("trt_engine_cache_enable", "1"),
            ("trt_engine_cache_path", "/cache"),
            ("trt_timing_cache_enable", "1"),
            ("trt_timing_cache_path", "/cache"),
            ("trt_profile_min_shapes", "images:1x3x416x416"),
            ("trt_profile_opt_shapes", "images:16x3x416x416"),
            ("trt_profile_max_shapes", "images:16x3x416x416"),
        ];
        let cuda: &[(&str, &str)] = &[
            ("device_id", "1"),
            ("arena_extend_strategy", "kSameAsRequested"),
            ("cudnn_conv_algo_search", "HEURISTIC"),
            ("use_tf32", "1"),
            ("enable_cuda_graph", "0"),
        ];
        check(&half, &[(Provider::TensorRt, tensorrt), (Provider::Cuda, cuda)]);
    }
}
