//! `weir profile`: how long models take by batch size, one slot of their device alone.

mod blocks;
mod layers;
mod single;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use comfy_table::CellAlignment;
use weir_flow::{DeviceKind, Model};
use weir_graph::DeviceClass;
use weir_operators::{DeviceFacts, LoadRequest};
use weir_runtime::{MeasuredProfile, measure_profile_and_memory};
use weir_types::Span;

use crate::args::Profile;
use crate::assemble;
use crate::catalog;
use crate::error::{UserError, write_error};
use crate::output;
use crate::outputs::Files;
use crate::report::plain_table;
use crate::whole_file::write_whole;
use crate::zoo::{self, Zoo};
use single::SingleModel;

/// Each duration is the median of so many runs, after one that does not count.
const RUNS: usize = 15;
/// Measured where neither the graph nor the caller says.
const BATCHES: [u32; 4] = [1, 2, 4, 8];

/// A model that can be measured.
struct ProfiledModel {
    name: String,
    model: Arc<dyn Model>,
    device: DeviceKind,
    batches: Vec<u32>,
}

/// Measures every model of a graph, or one model; prints a table, and writes profiles where they are asked for.
///
/// # Errors
/// Problems of the graph, models that are not there or cannot be run, and files that cannot be written.
pub(crate) fn profile(args: &Profile, zoo: &Zoo) -> anyhow::Result<()> {
    let single = SingleModel::from_args(args, zoo)?;
    files(args, zoo, single.is_some()).check()?;
    if let Some(blocks) = args.blocks {
        let single = single.ok_or_else(|| {
            UserError::new("--blocks wants one model: a file that ends in .onnx, or embedded:NAME")
        })?;
        return blocks::profile(args, blocks as usize, single);
    }
    let is_model = single.is_some();
    let models = match single {
        Some(single) => vec![single_model(single, args)?],
        None => graph_models(&args.target, args, zoo)?,
    };
    let mut table = plain_table(&["model", "batch", "ms", "items/s"]);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut openings = plain_table(&["model", "open cold ms", "open warm ms", "session MiB"]);
    openings
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut has_openings = false;
    for profiled in &models {
        let free_bytes = || Some(gpu(profiled.device)?.free_bytes);
        let measured = measure_profile_and_memory(
            &profiled.model,
            profiled.device,
            &profiled.batches,
            RUNS,
            &free_bytes,
        )
        .map_err(|error| UserError::new(error.to_string()))?;
        for (size, span) in &measured.points {
            let ms = span.micros() as f64 / 1e3;
            table.add_row([
                profiled.name.clone(),
                size.to_string(),
                format!("{ms:.3}"),
                format!("{:.1}", f64::from(*size) * 1e3 / ms.max(1e-3)),
            ]);
        }
        if let Some(session) = &measured.session {
            has_openings = true;
            let ms = |span: Span| format!("{:.1}", span.micros() as f64 / 1e3);
            openings.add_row([
                profiled.name.clone(),
                ms(session.open_cold),
                ms(session.open_warm),
                format!("{:.1}", session.device_bytes as f64 / f64::from(1 << 20)),
            ]);
        }
        if let Some(out) = &args.out {
            let path = if is_model {
                out.clone()
            } else {
                out.join(format!("{}.toml", profiled.name))
            };
            let share = mps_share(std::env::var("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").ok().as_deref());
            let facts = gpu(profiled.device);
            let text = profile_file(&profiled.name, &measured, facts.as_ref(), share);
            write(&path, &text)?;
        }
        if let Some(remark) = profiled.model.batching().remark {
            output::remark(&format!("{}: {remark}", profiled.name));
        }
    }
    if has_openings {
        output::say(&table.trim_fmt())?;
        return output::say(&format!("\n{}", openings.trim_fmt()));
    }
    output::say(&table.trim_fmt())
}

/// Inputs and outputs of the command. Profiles are left out: measuring again may replace them.
fn files(args: &Profile, zoo: &Zoo, is_model: bool) -> Files {
    let mut files = Files::default();
    files.read("the profile", &args.target);
    zoo.files()
        .into_iter()
        .for_each(|file| files.read("the zoo", file));
    // Of a graph, --out is a folder.
    let out = args.out.iter().filter(|_| is_model);
    out.for_each(|path| files.write("--out", path));
    args.blocked
        .layers
        .iter()
        .for_each(|path| files.write("--layers", path));
    files
}

/// One model, on the CPU.
fn single_model(single: SingleModel, args: &Profile) -> anyhow::Result<ProfiledModel> {
    let (head, settings) = single
        .head
        .ok_or_else(|| UserError::new("set its head with --head, such as --head yolox"))?;
    let batches = sizes(&args.batches, &BATCHES);
    let model = weir_operators::load(&LoadRequest {
        name: &single.name,
        file: single.file,
        head: &head,
        settings: &settings,
        max_batch: batches.last().copied().unwrap_or(1),
        dump: None,
    });
    Ok(ProfiledModel {
        model: model.map_err(|error| UserError::new(error.to_string()))?,
        name: single.name,
        device: DeviceKind::Cpu,
        batches,
    })
}

/// All models of a graph that are not emulated, each on its device.
fn graph_models(path: &Path, args: &Profile, zoo: &Zoo) -> anyhow::Result<Vec<ProfiledModel>> {
    let graph = catalog::load(path, zoo)?;
    zoo::require(&graph, zoo)?;
    let mut models = Vec::new();
    for node in graph.models() {
        let device = match graph.devices()[node.device].class {
            DeviceClass::Cpu | DeviceClass::Workers | DeviceClass::Worker(_) => DeviceKind::Cpu,
            DeviceClass::Cuda(ordinal) => DeviceKind::Cuda(ordinal),
            DeviceClass::Servers(_) => DeviceKind::Server(0),
            DeviceClass::Emulated(_) => {
                let name = &node.name;
                output::remark(&format!(
                    "{name} is on an emulated device: its profile is declared"
                ));
                continue;
            }
        };
        let mut node = node.clone();
        node.batch = sizes(&args.batches, &node.batch);
        if let Some(model) = assemble::model(&node, &graph, zoo, None)? {
            models.push(ProfiledModel {
                name: node.name,
                model,
                device,
                batches: node.batch,
            });
        }
    }
    Ok(models)
}

/// Ascending and each once; `default` where none is asked for.
fn sizes(asked: &[u32], default: &[u32]) -> Vec<u32> {
    let mut sizes = if asked.is_empty() { default } else { asked }.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Facts about the GPU from its driver; `None` for other devices, or if the driver does not answer.
fn gpu(device: DeviceKind) -> Option<DeviceFacts> {
    match device {
        DeviceKind::Cpu | DeviceKind::Server(_) => None,
        DeviceKind::Cuda(ordinal) => weir_operators::device_facts(ordinal).ok(),
    }
}

/// The share of a GPU that MPS gives this process, by the variable that says it in percent: above 0 and at most 1.
fn mps_share(percent: Option<&str>) -> Option<f64> {
    let percent: f64 = percent?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
}

/// Text of a profile for the key `profile` of a model, with tables of device facts that plans read and that
/// key ignores.
fn profile_file(
    name: &str,
    measured: &MeasuredProfile,
    gpu: Option<&DeviceFacts>,
    share: Option<f64>,
) -> String {
    let mut text =
        format!("# {name}, measured by weir profile: batch size and median duration.\n\n[durations]\n");
    for (size, span) in &measured.points {
        // A reader of the profile refuses a duration of zero.
        let _ = writeln!(text, "{size} = \"{}\"", (*span).max(Span::from_micros(1)));
    }
    if let Some(gpu) = gpu {
        text.push_str("\n# The device, and what the model took of it: its opening, the first of a process included, and memory.\n");
        let name = toml::Value::String(gpu.name.clone());
        let _ = writeln!(
            text,
            "[device]\nname = {name}\nmemory_bytes = {}",
            gpu.memory_bytes
        );
        if let Some(share) = share {
            let _ = writeln!(text, "share = {share:?}");
        }
        let _ = writeln!(text, "\n[session]\nopening = \"{}\"", measured.opening);
        if let Some(bytes) = measured.memory_bytes {
            let _ = writeln!(text, "memory_bytes = {bytes}");
        }
    }
    if let Some(session) = &measured.session {
        let _ = writeln!(
            text,
            "\n# How long a session is opened from the file and from host memory, and what it takes.\n[session]\nopen_cold = \"{}\"\n\
             open_warm = \"{}\"\nmemory_bytes = {}",
            session.open_cold, session.open_warm, session.device_bytes
        );
    }
    text
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))
        .and_then(|()| write_whole(path, text))
        .map_err(|error| write_error(format_args!("the profile {}", path.display()), &error).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_runtime::SessionUse;

    #[test]
    fn a_profile_of_a_gpu_has_facts_of_it_and_is_toml() {
        let measured = MeasuredProfile {
            points: vec![(1, Span::from_micros(2_500)), (4, Span::ZERO)],
            opening: Span::from_millis(1_250),
            memory_bytes: Some(300 << 20),
            session: None,
        };
        let gpu = DeviceFacts {
            name: "A \"quoted\" GPU".to_owned(),
            memory_bytes: 80 << 30,
            free_bytes: 0,
        };
        let text = profile_file("fer", &measured, Some(&gpu), mps_share(Some("25")));
        let read: toml::Table = text.parse().expect("TOML");
        assert_eq!(read["durations"]["1"].as_str(), Some("2.5ms"));
        assert_eq!(read["device"]["name"].as_str(), Some("A \"quoted\" GPU"));
        assert_eq!(read["device"]["memory_bytes"].as_integer(), Some(80 << 30));
        assert_eq!(read["device"]["share"].as_float(), Some(0.25));
        assert_eq!(read["session"]["opening"].as_str(), Some("1250ms"));
        assert_eq!(read["session"]["memory_bytes"].as_integer(), Some(300 << 20));
        let session = SessionUse {
            device_bytes: 20 << 20,
            host_bytes: 2 << 20,
            open_cold: Span::from_millis(30),
            open_warm: Span::from_millis(9),
        };
        let measured = MeasuredProfile {
            session: Some(session),
            ..measured
        };
        let on_cpu = profile_file("fer", &measured, None, None);
        let read: toml::Table = on_cpu.parse().expect("TOML");
        assert_eq!(read.keys().collect::<Vec<_>>(), ["durations", "session"]);
        assert_eq!(read["session"]["open_warm"].as_str(), Some("9ms"));
        assert_eq!(read["session"]["memory_bytes"].as_integer(), Some(20 << 20));
    }

    #[test]
    fn the_share_of_a_process_is_what_mps_says() {
        for (percent, share) in [
            ("50", Some(0.5)),
            (" 100 ", Some(1.0)),
            ("0", None),
            ("101", None),
            ("half", None),
        ] {
            assert_eq!(mps_share(Some(percent)), share, "{percent}");
        }
        assert_eq!(mps_share(None), None);
    }
}
