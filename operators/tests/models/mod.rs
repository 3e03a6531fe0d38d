//! Heads and operators on the models and pictures of the asset pack. Without `WEIR_ASSETS` these tests skip.
#![expect(clippy::print_stdout, reason = "a test says what it finds, and why it skips")]

mod cutting;
mod faces;
mod generating;
mod loading;
mod objects;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{
    Attribute, DeviceKind, Frame, Image, Item, Model, ModuleOutput, Object, Points, Region, RequestResults,
    Settings, Value,
};
use weir_operators::{LoadError, LoadRequest, ModelFile, OperatorRequest, load, operator};

fn assets() -> Option<PathBuf> {
    let found = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    if found.is_none() {
        println!("skipped: WEIR_ASSETS is not set");
    }
    found
}

fn try_model(path: &Path, head: &str, settings: &Settings) -> Result<Arc<dyn Model>, LoadError> {
    let file = ModelFile::Path(path.to_owned());
    load(&LoadRequest {
        name: "model",
        file,
        head,
        settings,
        max_batch: 3,
        dump: None,
    })
}

fn keys(keys: &[(&str, Value)]) -> Settings {
    Settings(
        keys.iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
    )
}

/// Settings of a detector of the pack: those of the 80 classes of COCO are named by the graph.
fn names(head: &str) -> Settings {
    match head {
        "yolox" | "nanodet" | "fastestdet" => keys(&[("labels", Value::Texts(vec!["coco".to_owned()]))]),
        _ => Settings::default(),
    }
}

fn frame(path: &Path) -> Arc<Frame> {
    let picture = image::open(path).expect("picture").to_rgb8();
    let (width, height) = picture.dimensions();
    Arc::new(Frame::new(
        0,
        0.0,
        Image::from_rgb(width, height, picture.into_raw()),
    ))
}

/// A module that is run by hand, and the number it has in the evidence.
struct Module {
    operator: Arc<dyn weir_flow::Operator>,
    model: Arc<dyn Model>,
}

impl Module {
    fn new(operator_name: &str, model: Arc<dyn Model>, regions: &[&str], settings: &Settings) -> Self {
        let regions: Vec<String> = regions.iter().map(|class| (*class).to_owned()).collect();
        let request = OperatorRequest {
            operator: operator_name,
            regions: &regions,
            settings,
            model: Some(model.as_ref()),
        };
        Self {
            operator: operator(&request).expect("operator"),
            model,
        }
    }

    fn run(&self, number: u32, frame: &Arc<Frame>, results: &mut RequestResults) -> ModuleOutput {
        let items = self.operator.items(frame, results);
        let mut session = self.model.open(DeviceKind::Cpu).expect("session");
        let inferences = session.run(&items, &mut |_| ()).expect("runs");
        assert_eq!(inferences.len(), items.len());
        let output = self.operator.output_beside(number, &items, inferences, results);
        results.add(number, output.clone());
        output
    }
}

fn module(assets: &Path, operator: &str, model: &str, head: &str, settings: &Settings) -> Module {
    let model = try_model(&assets.join("models").join(model), head, settings).expect("loads");
    // `labels` of a model name its classes; those of a detecting module select some of them.
    let mut settings = settings.clone();
    if operator == "detect" {
        settings.0.remove("labels");
    }
    Module::new(operator, model, &[], &settings)
}

fn detect(assets: &Path, model: &str, head: &str, picture: &str) -> Vec<Object> {
    let module = module(assets, "detect", model, head, &names(head));
    let output = module.run(
        0,
        &frame(&assets.join("images").join(picture)),
        &mut RequestResults::default(),
    );
    for object in &output.objects {
        println!(
            "{model} {picture}: {} {:.3} {:?}",
            object.class, object.score, object.rect
        );
    }
    output.objects
}

fn classes(objects: &[Object]) -> Vec<&str> {
    objects.iter().map(|object| &*object.class).collect()
}
