//! Edited answers of model servers on their readers.

use weir_kserve::client::{Metadata, read_answer, refusal};

use crate::edited::{MemoryBound, fuzz};

#[test]
fn fuzz_model_server_answers() {
    let json =
        br#"{"model_name":"m","outputs":[{"name":"a","datatype":"FP32","shape":[1,2],"data":[3.0,4.0]},
        {"name":"b","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}"#;
    let metadata = br#"{"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[-1,3,640]}],
        "outputs":[{"name":"a","datatype":"FP32","shape":[-1,84,8400]}]}"#;
    let seeds = vec![
        [&json[..], &[0, 0, 128, 63, 0, 0, 32, 192]].concat(),
        br#"{"error":"no such model"}"#.to_vec(),
        metadata.to_vec(),
    ];
    let names = ["a", "b"].map(str::to_owned);
    assert!(read_answer(&seeds[0], Some(json.len()), &names).is_ok());
    let words: [&[u8]; 6] = [b"\"", b"[", b"{", b"18446744073709551615", b"1e999", b"-1"];
    fuzz(
        "model-server-answers",
        2_000,
        MemoryBound::default(),
        seeds,
        &words,
        |bytes| {
            for header in [None, Some(json.len()), Some(bytes.len() / 2), Some(usize::MAX)] {
                if let Ok(read) = read_answer(bytes, header, &names) {
                    assert_eq!(read.len(), names.len());
                }
            }
            if let Some(reason) = refusal(bytes) {
                assert!(!reason.contains(char::is_control));
            }
            if let Ok(metadata) = serde_json::from_slice::<Metadata>(bytes) {
                let sizes = metadata.inputs.iter().flat_map(|input| input.sizes());
                assert!(sizes.flatten().all(|size| size > 0));
            }
        },
    );
}
