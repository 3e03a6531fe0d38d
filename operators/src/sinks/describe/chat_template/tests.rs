use std::path::PathBuf;

use super::*;
use crate::edited::{MemoryBound, fuzz};

const SMOLVLM: &str = "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == \
                       'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' \
                       %}{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% \
                       endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

const LLAMA: &str = "{{- bos_token }}{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- \
                     set messages = messages[1:] %}{%- else %}{%- set system_message = '' %}{%- endif %}{{- system_message }}{%- for \
                     message in messages %}{{- '[' + message['role'] + ']\n' + message['content'] | trim + '[end]' }}{%- endfor %}";

fn checked(template: &str, image: Option<&str>) -> Result<ChatTemplate, String> {
    let texts = ChatTexts {
        file: PathBuf::from("model/tokenizer_config.json"),
        template: template.to_owned(),
        begin: "<s>".to_owned(),
        end: "</s>".to_owned(),
        image: image.map(str::to_owned),
    };
    ChatTemplate::checked(&texts, "")
}

fn shown(template: &str, image: Option<&str>, system: &str) -> String {
    let template = checked(template, image).expect("a template");
    template.render(system, "Is it a van?").expect("a prompt")
}

#[test]
fn templates_of_public_families_give_their_prompts() {
    assert_eq!(
        shown(SMOLVLM, Some("<image>"), ""),
        "<|im_start|>User:<image>Is it a van?<end_of_utterance>\nAssistant:"
    );
    let llava = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}{% for content in message['content'] | \
                 selectattr('type', 'equalto', 'image') %}{{ '<image>' }}{% endfor %}{% for content in message['content'] | \
                 selectattr('type', 'equalto', 'text') %}{{ '\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}";
    assert_eq!(
        shown(llava, Some("<image>"), "Be short."),
        "<|im_start|>system\n\nBe short.<|im_end|><|im_start|>user\n<image>\nIs it a van?<|im_end|>"
    );
    assert_eq!(
        shown(LLAMA, None, " Be short. "),
        "<s>Be short.[user]\nIs it a van?[end]"
    );
    let vicuna =
        "{% for message in messages %}USER: {{ message.content.strip() + ' ' }}{% endfor %}ASSISTANT:";
    assert_eq!(
        shown(vicuna, Some("<image>"), ""),
        "USER: <image>\nIs it a van? ASSISTANT:"
    );
}

#[test]
fn hostile_templates_are_refused_or_end_at_a_bound() {
    let doubled = "{% set a = 'xxxxxxxx' %}".to_owned() + &"{% set a = a ~ a %}".repeat(60) + "{{ a }}";
    let looped = "{% set a = 'x' %}{% for i in messages[0].content %}{% set a = a + a %}{% endfor %}{{ a }}";
    let nested =
        "{% set a = 'x' %}{% set b = [a, a] %}{% for x in b %}{% set b = [b, b] %}{% endfor %}{{ b }}";
    let through = "{% set a = 'x' ~ 'y' %}{% for x in [a, a] %}{% set c = x ~ x %}{% endfor %}{{ c }}";
    let conditional = "{% set a = 'x' %}{% set a = a if a else [a] %}{% set a = a ~ '' %}{{ a }}";
    for template in [&doubled, looped, nested, through, conditional] {
        let error = checked(template, None).expect_err("refused");
        assert!(error.contains("joined already"), "{error}");
        assert!(error.contains("tokenizer_config.json: line 1"), "{error}");
    }
    for (template, reason) in [
        ("{{ 'x' * 1000000000 }}", "`*`"),
        ("{% macro a() %}{% endmacro %}", "`macro` is not supported"),
        ("{% set a %}x{% endset %}", "without `=`"),
        (
            "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}",
            "of an attribute",
        ),
        (
            "{% for a in messages recursive %}{{ loop(a) }}{% endfor %}",
            "`recursive`",
        ),
        ("{% for a in messages %}{% for b in messages", "line 1"),
        ("{{ raise_exception('no system') }}", "no system"),
        ("{{ messages | unheard_of }}", "unheard_of"),
        ("{{ {'a': 1} }}", "`{`"),
    ] {
        let error = checked(template, None).expect_err(template);
        assert!(error.contains(reason), "{template}: {error}");
        assert!(error.starts_with("chat template in model/"), "{error}");
    }
    let loops = "{% for a in 'xxxxxxxxxxxxxxxx' %}".repeat(5) + "x" + &"{% endfor %}".repeat(5);
    let error = checked(&loops, None).expect_err("too long");
    assert!(error.contains("steps"), "{error}");
    let quoted = format!("{{{{ '\"'{} }}}}", "|tojson".repeat(40));
    let error = checked(&quoted, None).expect_err("too long");
    assert!(error.contains("more than 65536 bytes"), "{error}");
    let long = format!("{{{{ '{}' }}}}", "x".repeat(70_000));
    let error = checked(&long, None).expect_err("too long");
    assert!(error.contains("more than 65536 bytes"), "{error}");
}

#[test]
fn template_without_a_place_for_the_picture_is_refused() {
    for template in [
        "{{ messages[0].role }}",
        "<image><image>{{ messages[0].content }}",
    ] {
        let error = checked(template, Some("<image>")).expect_err(template);
        assert!(error.contains("not one <image>"), "{error}");
    }
}

#[test]
fn fuzz_chat_templates() {
    let bound = MemoryBound {
        base: 64 << 20,
        per_byte: 400,
    };
    let words: [&[u8]; 12] = [
        b"{% set a = ",
        b"{% set a = a ~ a %}",
        b"{% for a in messages %}",
        b"{% for x in [a, a] %}",
        b"{% endfor %}",
        b"%}",
        b" ~ a",
        b" + a",
        b"|join(a)",
        b"|list",
        b"|tojson",
        b"[a, a]",
    ];
    let seeds = [SMOLVLM, LLAMA].map(|text| text.as_bytes().to_vec());
    fuzz("chat templates", 2_000, bound, seeds.into(), &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        drop(checked(&text, None));
        drop(checked(&text, Some("<image>")));
    });
}
