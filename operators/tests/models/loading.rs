//! Models that load, and the errors of those that do not.

use weir_flow::SessionError;
use weir_operators::{ModelError, OpenError};

use super::*;

#[test]
fn an_invalid_or_unfit_model_is_one_clear_error() {
    let Some(assets) = assets() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    let (empty, text) = (folder.path().join("empty.onnx"), folder.path().join("text.onnx"));
    std::fs::write(&empty, b"").expect("written");
    std::fs::write(&text, "this is not a model\n".repeat(100)).expect("written");
    let cut = folder.path().join("cut.onnx");
    let whole = std::fs::read(assets.join("models/yolox_nano_416.onnx")).expect("read");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("written");
    let models = assets.join("models");
    for (path, head, words, mend) in [
        (folder.path().join("none.onnx"), "yolox", "cannot be read", "file"),
        (empty, "yolox", "is empty", "empty"),
        (text, "yolox", "no ONNX file", "not onnx"),
        (cut, "yolox", "no ONNX file", "not onnx"),
        (
            models.join("hand_keypoint_classifier.onnx"),
            "classify",
            "expects an image",
            "head",
        ),
        (
            models.join("stories260k_decoder.onnx"),
            "classify",
            "expects one image",
            "head",
        ),
        (
            models.join("nanodet_m_320.onnx"),
            "yolox",
            "the head expects",
            "head",
        ),
        (
            models.join("yolox_nano_416.onnx"),
            "embeds",
            "there is no head",
            "no head",
        ),
        (
            models.join("mobilefacenet_112.onnx"),
            "ctc",
            "the head expects",
            "head",
        ),
    ] {
        let error = try_model(&path, head, &Settings::default())
            .err()
            .expect("refused");
        let found = match &error.cause {
            ModelError::File(_) => "file",
            ModelError::Empty => "empty",
            ModelError::Open(OpenError::NotOnnx) => "not onnx",
            ModelError::Head(_) => "head",
            ModelError::NoHead { .. } => "no head",
            _ => "other",
        };
        assert_eq!(found, mend, "{error}");
        let error = error.to_string();
        println!("{error}");
        assert!(
            error.contains(words) && error.contains("onnx") && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn inputs_are_dumped_where_requested() {
    let Some(assets) = assets() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    let request = LoadRequest {
        name: "detector",
        file: ModelFile::Path(assets.join("models/yolox_nano_416.onnx")),
        head: "yolox",
        settings: &names("yolox"),
        max_batch: 1,
        dump: Some(folder.path().to_owned()),
    };
    let mut session = load(&request)
        .expect("loads")
        .open(DeviceKind::Cpu)
        .expect("session");
    let item = Item {
        frame: frame(&assets.join("images/darknet_dog.jpg")),
        region: Region::Whole,
        object: None,
        class: None,
    };
    session.run(&[item], &mut |_| ()).expect("runs");
    let bytes = std::fs::read(folder.path().join("detector-0000000-f0.npy")).expect("dumped");
    assert_eq!(bytes.len(), 128 + 3 * 416 * 416 * 4);
}

#[test]
fn a_missing_gpu_is_an_error() {
    let Some(assets) = assets() else { return };
    let model = try_model(
        &assets.join("models/yunet_n_320.onnx"),
        "yunet",
        &Settings::default(),
    )
    .expect("loads");
    let error = model.open(DeviceKind::Cuda(7)).err().expect("refused");
    println!("{error}");
    assert!(matches!(error, SessionError::Device { .. }), "{error:?}");
    assert!(error.to_string().contains("cuda:7"), "{error}");
}
