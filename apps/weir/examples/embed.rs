//! The engine within another program: a graph is started, a stream added, what comes out received, and all of it stopped.
//!
//!     cargo run -p weir --example embed

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use weir::graph::SourceNode;
use weir::runtime::{Engine, NewStream, RunOptions, Update};
use weir::{Extensions, Zoo};

const GRAPH: &str = r#"
[app]
name = "embedded"
slo = "2s"
[sources.first]
uri = "emulated:uniform?rate=25"
[models.any]
device = "emulated:a"
profile = { "1" = "2ms", "8" = "8ms" }
[modules.look]
operator = "emulate"
model = "any"
inputs = ["first"]
"#;

/// Runs until twenty frames of the second stream have come out.
pub(crate) fn main() -> anyhow::Result<()> {
    // Where models of the zoo are kept.
    let zoo = Zoo::in_folder(std::env::temp_dir())?;
    let extensions = Extensions::default();
    let graph = extensions.parse(GRAPH, "graph.toml".as_ref(), &zoo)?;
    let (assembly, updates) = extensions.assemble(graph, &zoo)?.subscribe(64);
    let options = RunOptions {
        until_stopped: true,
        ..RunOptions::default()
    };
    let engine = Engine::start(assembly, options, &weir::flow::StopFlag::default())?;
    engine.add_stream(NewStream {
        // An emulated one; `weir_operators::media::source` opens cameras and files.
        node: SourceNode::new("second", "emulated:uniform?rate=25"),
        factory: None,
        like: Some("first".to_owned()),
    })?;
    let mut seen = 0;
    while seen < 20 {
        match updates.recv()? {
            Update::Delivery(delivery) if &*delivery.stream == "second" => {
                seen += 1;
                println!(
                    "second: frame {} after {:.1} ms",
                    delivery.frame.index, delivery.latency_ms
                );
            }
            Update::Notice(notice) => println!("{notice:?}"),
            _ => {}
        }
    }
    let removed = engine.remove_stream("second")?;
    println!("second came to {:?}", removed.requests);
    let report = engine.stop()?;
    println!("all of it to {:?}", report.requests);
    Ok(())
}
