//! Requests for chat completions with a picture, and their answers, as Ollama, llama.cpp, vLLM and hosted services understand them.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use super::answers::AnswerForm;
use super::budget::Usage;

/// Parts of a request that are the same for each picture.
#[derive(Debug, Clone)]
pub(super) struct Chat {
    /// Name of the model at its server.
    pub(super) model: String,
    /// Words that precede all prompts; empty: none.
    pub(super) system: String,
    pub(super) max_tokens: u64,
    pub(super) temperature: f64,
    pub(super) form: AnswerForm,
}

impl Chat {
    /// The question with the form that its answer must have.
    pub(super) fn instructed(&self, prompt: &str) -> String {
        match self.form.instruction() {
            Some(instruction) => format!("{prompt}\n{instruction}"),
            None => prompt.to_owned(),
        }
    }

    /// The body of a request.
    pub(super) fn request(&self, prompt: &str, jpeg: &[u8]) -> Vec<u8> {
        let prompt = self.instructed(prompt);
        let picture = format!("data:image/jpeg;base64,{}", BASE64_STANDARD.encode(jpeg));
        let user = json!({
            "role": "user",
            "content": [
                { "type": "text", "text": prompt },
                { "type": "image_url", "image_url": { "url": picture } },
            ],
        });
        let system = (!self.system.is_empty()).then(|| json!({ "role": "system", "content": self.system }));
        let messages: Vec<Value> = system.into_iter().chain([user]).collect();
        let mut body = json!({
            "model": self.model,
            "messages": messages,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream": false,
        });
        if let Some(schema) = self.form.schema() {
            body["response_format"] = json!({
                "type": "json_schema",
                "json_schema": { "name": "answer", "strict": true, "schema": schema },
            });
        }
        body.to_string().into_bytes()
    }

    /// Words and tokens of an answer. An answer without counts has as many tokens as it may have.
    ///
    /// # Errors
    /// It is no answer of a chat.
    pub(super) fn response(&self, body: &[u8]) -> Result<(String, Usage), String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|_| "it answers no JSON, or too much of it".to_owned())?;
        let content = &answer["choices"][0]["message"]["content"];
        let words = match content {
            Value::String(words) => words.clone(),
            Value::Array(parts) => {
                let words = parts.iter().filter_map(|part| part["text"].as_str());
                words.collect::<Vec<_>>().join(" ")
            }
            _ => return Err("its answer has no `choices` with a message".to_owned()),
        };
        let count = |name: &str| answer["usage"][name].as_u64();
        let usage = Usage::new(
            count("prompt_tokens").unwrap_or(0),
            count("completion_tokens").unwrap_or(self.max_tokens),
        );
        Ok((words, usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat() -> Chat {
        Chat {
            model: "llava".to_owned(),
            system: String::new(),
            max_tokens: 64,
            temperature: 0.0,
            form: AnswerForm::OneOf(vec!["yes".into(), "no".into()]),
        }
    }

    #[test]
    fn request_has_the_prompt_and_the_picture() {
        let body: Value = serde_json::from_slice(&chat().request("Is it a \"van\"?", b"JPEG")).expect("JSON");
        let content = &body["messages"][0]["content"];
        assert_eq!(
            content[0]["text"],
            "Is it a \"van\"?\nAnswer with one of these and nothing else: yes, no."
        );
        assert_eq!(content[1]["image_url"]["url"], "data:image/jpeg;base64,SlBFRw==");
        assert_eq!(
            (body["max_tokens"].as_u64(), body["stream"].as_bool()),
            (Some(64), Some(false))
        );
        assert!(body.get("response_format").is_none());
    }

    #[test]
    fn response_has_words_and_tokens() {
        let body = br#"{"choices":[{"message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":812,"completion_tokens":3}}"#;
        assert_eq!(chat().response(body), Ok(("yes".to_owned(), Usage::new(812, 3))));
        let parts = br#"{"choices":[{"message":{"content":[{"type":"text","text":"yes"},{"type":"x"}]}}]}"#;
        assert_eq!(chat().response(parts), Ok(("yes".to_owned(), Usage::new(0, 64))));
        for wrong in [
            &b""[..],
            b"<html>",
            b"{}",
            br#"{"choices":[]}"#,
            br#"{"choices":[{"message":{"content":null}}]}"#,
        ] {
            assert!(chat().response(wrong).is_err());
        }
    }
}
