//! Models that share several devices, live: a slot runs one of them at a time, and each runs wherever it is placed.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use weir_flow::{Batching, Catalog, DeviceKind, Inference, Item, Model, Session, SessionError, Step};

use crate::common::{Parts, assemble, at_own_pace, graph, run};

/// Notes the threads that its sessions run on.
#[derive(Clone, Default)]
struct Noting {
    threads: Arc<Mutex<BTreeSet<String>>>,
}

impl Noting {
    fn threads(&self) -> BTreeSet<String> {
        self.threads.lock().unwrap().clone()
    }
}

impl Model for Noting {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(self.clone()))
    }
}

impl Session for Noting {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        let thread = format!("{:?}", std::thread::current().id());
        self.threads.lock().unwrap().insert(thread);
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn two_models_share_the_slots_of_devices_alike_and_unequal() {
    let folder = tempfile::tempdir().unwrap();
    for slower in ["2ms", "6ms"] {
        let text = format!(
            r#"
            [app]
            name = "several-devices"
            slo = "20s"
            [policy]
            route = "round-robin"
            [sources.camera]
            uri = "emulated:uniform?rate=200&frames=200"
            mode = "live"
            [models.finder]
            devices = ["emulated:a", "emulated:b"]
            profile = {{ "1" = "2ms" }}
            profiles."emulated:b" = {{ "1" = "{slower}" }}
            [models.namer]
            devices = ["emulated:a", "emulated:b"]
            profile = {{ "1" = "2ms" }}
            profiles."emulated:b" = {{ "1" = "{slower}" }}
            [modules.find]
            operator = "emulate"
            model = "finder"
            inputs = ["camera"]
            [modules.name]
            operator = "emulate"
            model = "namer"
            inputs = ["find"]
            "#
        );
        let models = [Noting::default(), Noting::default()];
        let [finder, namer] = models.clone();
        let parts = Parts {
            models: vec![("finder", Arc::new(finder)), ("namer", Arc::new(namer))],
            ..Parts::default()
        };
        let path = folder.path().join(format!("{slower}.jsonl"));
        let report = run(
            assemble(graph(&text, &Catalog::default()), parts),
            &at_own_pace(Some(&path)),
        );
        assert_eq!(report.requests.delivered, 200, "{:?}", report.requests);
        let [of_finder, of_namer] = models.map(|model| model.threads());
        assert!(
            of_finder.union(&of_namer).count() <= 2,
            "a device has one thread, whichever model runs: {of_finder:?} {of_namer:?}"
        );
        if slower == "6ms" {
            assert_eq!(
                (of_finder.len(), of_namer.len()),
                (2, 2),
                "in turn on both devices"
            );
        }
        for module in ["find", "name"] {
            let devices = report.modules[module].slots.iter();
            let devices: Vec<&str> = devices.map(|slot| &*slot.device).collect();
            assert_eq!(devices, ["emulated:a", "emulated:b"]);
        }
        assert!(weir_runtime::verify(&path).unwrap().steps > 0);
    }
}
