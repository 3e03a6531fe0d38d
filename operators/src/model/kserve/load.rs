//! A model on servers is loaded: what they say of it is checked, and it runs on a blank item and on noise.

use std::sync::Arc;

use weir_flow::Batching;
use weir_kserve::client::{Metadata, ReceivedTensor, SentTensor, write_request};
use weir_kserve::{FP32, TensorMetadata};

use super::super::LoadRequest;
use super::super::batch_probe::{ProbeInput, Rows, compare_rows};
use super::super::dump::Dump;
use super::super::error::ModelError;
use super::super::loaded::Loaded;
use super::super::metadata::{inspect_row, warn};
use super::super::noise::unlike_item;
use super::super::runtime::GpuOptions;
use super::super::session::row_shape;
use super::client::{Call, Client};
use super::{KServeModel, OutputShapes, ServerModel};
use crate::heads::{HeadKind, OutputSpec};

/// Loads a model that runs on servers, and checks it against its head.
///
/// # Errors
/// No server answers, one has another model than the others, or the model does not fit its head.
pub(in super::super) fn load(
    request: &LoadRequest<'_>,
    server: &ServerModel,
    kind: &HeadKind,
) -> Result<KServeModel, ModelError> {
    if request.settings.text("second").is_some() {
        let reason = "`second` is for models of files: a server runs one model a call";
        return Err(ModelError::Head(reason.to_owned()));
    }
    let (metadata, client) = described(server)?;
    let port = input_port(&metadata, kind)?;
    let sizes = port.sizes();
    let input = kind
        .input(request.settings, &sizes)
        .map_err(|reason| ModelError::Head(format!("{reason} (head {}, input {})", kind.name, port.name)))?;
    let names: Vec<String> = metadata
        .outputs
        .iter()
        .map(|output| output.name.clone())
        .collect();
    let mut probe = Probe {
        client: &client,
        input: port.name.clone(),
        outputs: names,
        item: ProbeInput {
            item: input.item_shape(),
            range: input.range(),
            max: request.max_batch.max(1) as usize,
        },
        body: Vec::new(),
    };
    let fixed = sizes.first().copied().flatten();
    let rows = fixed.unwrap_or(1);
    let blank = probe.run(&vec![None; rows]).map_err(ModelError::Run)?;
    let specs: Vec<OutputSpec> = blank
        .iter()
        .zip(&metadata.outputs)
        .map(|(tensor, port)| OutputSpec {
            name: port.name.clone(),
            shape: row_shape(&tensor.shape, rows),
            readable: port.datatype == FP32,
        })
        .collect();
    let head = kind
        .build(request.settings, &input, &specs)
        .map_err(ModelError::Head)?;
    let data: Vec<&[f32]> = blank.iter().map(|tensor| &*tensor.data).collect();
    let sign = inspect_row(&data, rows, &input, &*head).map_err(ModelError::Head)?;
    let mut remarks = head
        .labels()
        .map_or(Vec::new(), |labels| labels.remarks().to_vec());
    remarks.extend(sign);
    warn(request.name, &remarks);
    let (rows, batching) = match fixed {
        Some(rows) => (
            Rows::Fixed(rows),
            Batching {
                max: u32::try_from(rows).ok(),
                remark: None,
            },
        ),
        None => probe.batches(),
    };
    if let Some(remark) = &batching.remark {
        tracing::info!(model = request.name, remark, "batching");
    }
    let dump = request.dump.as_deref();
    let dump = dump
        .map(|folder| Dump::into(folder, request.name))
        .transpose()
        .map_err(ModelError::Run)?;
    let shapes = OutputShapes::new(&specs, input.widest.is_some());
    Ok(KServeModel {
        server: server.clone(),
        loaded: Arc::new(Loaded {
            name: request.name.to_owned(),
            head,
            input,
            graphs: Vec::new(),
            rows,
            dump,
            input_name: port.name.clone(),
            gpu: GpuOptions::default(),
        }),
        shapes: Arc::new(shapes),
        batching,
    })
}

/// Metadata of the model, with a client of the first server that answers. A server that does not answer is
/// logged and left out of the comparison.
fn described(server: &ServerModel) -> Result<(Metadata, Client), ModelError> {
    let mut first: Option<(Metadata, Client, &str)> = None;
    let mut away = Vec::new();
    for url in &server.urls {
        let client = Client::new(server, url);
        match (client.metadata(), &first) {
            (Ok(metadata), None) => first = Some((metadata, client, url)),
            (Ok(metadata), Some((known, _, known_url))) if metadata != *known => {
                return Err(ModelError::Head(format!(
                    "the servers {} and {} have different models of the name {}",
                    weir_flow::mask_credentials(known_url),
                    weir_flow::mask_credentials(url),
                    server.name
                )));
            }
            (Ok(_), Some(_)) => {}
            (Err(reason), _) => away.push(reason),
        }
    }
    match first {
        Some((metadata, client, _)) => {
            for reason in away {
                tracing::warn!(reason, "a model server is away; others are used meanwhile");
            }
            Ok((metadata, client))
        }
        None => Err(ModelError::Run(away.join("; "))),
    }
}

/// Its one input, of floats.
fn input_port<'a>(metadata: &'a Metadata, kind: &HeadKind) -> Result<&'a TensorMetadata, ModelError> {
    let [port] = &metadata.inputs[..] else {
        let names: Vec<&str> = metadata.inputs.iter().map(|port| &*port.name).collect();
        return Err(ModelError::Head(format!(
            "it has the inputs {}; the head {} expects one image",
            names.join(", "),
            kind.name
        )));
    };
    if port.datatype != FP32 {
        return Err(ModelError::Head(format!(
            "input {} holds {}; the head {} wants {FP32}",
            port.name, port.datatype, kind.name
        )));
    }
    if metadata.outputs.is_empty() {
        return Err(ModelError::Head("it has no outputs".to_owned()));
    }
    Ok(port)
}

struct Probe<'a> {
    client: &'a Client,
    input: String,
    outputs: Vec<String>,
    item: ProbeInput,
    body: Vec<u8>,
}

impl Probe<'_> {
    /// Runs rows of noise, each by its seed, or blank ones.
    fn run(&mut self, rows: &[Option<u64>]) -> Result<Vec<ReceivedTensor>, String> {
        let each = self.item.item.iter().product::<usize>();
        let mut data = vec![0.0; each * rows.len()];
        for (row, elements) in rows.iter().zip(data.chunks_exact_mut(each.max(1))) {
            if let Some(seed) = row {
                unlike_item(*seed, self.item.range, elements);
            }
        }
        let mut shape = vec![rows.len().cast_signed() as i64];
        shape.extend(self.item.item.iter().map(|size| size.cast_signed() as i64));
        let input = SentTensor {
            name: &self.input,
            shape: &shape,
            data: &data,
        };
        let header = write_request(&input, &self.outputs, None, &mut self.body)?;
        let call = Call {
            body: &self.body,
            header,
            outputs: &self.outputs,
            limit: None,
        };
        self.client.infer(&call, &mut Vec::new())
    }

    /// The largest batch up to the one that is wanted in which each row is what it is alone; halved until one is.
    fn batches(&mut self) -> (Rows, Batching) {
        let mut size = self.item.max;
        let mut remark = None;
        while size > 1 {
            match self.check(size) {
                Ok(()) => break,
                Err(reason) => {
                    remark.get_or_insert(reason);
                    size /= 2;
                }
            }
        }
        let max = u32::try_from(size.max(1)).ok();
        let (rows, max) = match (size, &remark) {
            (0 | 1, Some(_)) => (Rows::Fixed(1), max),
            (_, Some(_)) => (Rows::Free, max),
            (_, None) if self.item.max <= 1 => (Rows::Fixed(1), max),
            (_, None) => (Rows::Free, None),
        };
        let remark = remark.map(|reason| format!("{reason}; run in batches of {} at most", size.max(1)));
        (rows, Batching { max, remark })
    }

    fn check(&mut self, size: usize) -> Result<(), String> {
        let seeds: Vec<u64> = (0..size as u64).collect();
        let mut single = Vec::with_capacity(size);
        for seed in &seeds {
            let alone = self
                .run(&[Some(*seed)])
                .map_err(|reason| format!("fails on a single item: {reason}"))?;
            single.push(alone.into_iter().map(|tensor| tensor.data).collect());
        }
        let rows: Vec<Option<u64>> = seeds.into_iter().map(Some).collect();
        let batch = self
            .run(&rows)
            .map_err(|reason| format!("fails at a batch of {size}: {reason}"))?;
        let named = self.outputs.iter().zip(&batch);
        compare_rows(
            named.map(|(name, tensor)| (&**name, &*tensor.shape, &*tensor.data)),
            &single,
        )
        .map_err(|reason| format!("gives other results at a batch of {size}: {reason}"))
    }
}
