//! Privacy of a source: the keys `privacy` and `private`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_analytics::Privacy;
use weir_analytics::transforms::Outline;
use weir_config::{Content, Diagnostics, Entry, Fields, Node};
use weir_flow::HiddenForm;

use super::context::Context;
use super::objects;
use crate::keys::{self, MAX_REGIONS, PRIVACY, REGION};

const FORMS: [(&str, HiddenForm); 2] = [("blur", HiddenForm::Blur), ("blackout", HiddenForm::Blackout)];

/// Privacy with the position in the text of each class.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawPrivacy {
    pub(crate) privacy: Privacy,
    pub(crate) classes: BTreeMap<String, usize>,
}

/// Reads the keys of a source; `None` if it has none of them.
pub(super) fn read(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<RawPrivacy> {
    let (table, flag) = (fields.entry("privacy"), fields.entry("private"));
    table.or(flag)?;
    let mut read = RawPrivacy::default();
    read.privacy.private = fields.flag("private", context.diagnostics).into_value() == Some(true);
    if let Some(entry) = table {
        read_table(&fields.owner, entry, &mut read, context);
    }
    Some(read)
}

/// Reads the keys of `[defaults]`. What is wrong with them is reported where a source takes them.
pub(super) fn read_defaults(defaults: &[Entry], context: &mut Context<'_>) -> Option<RawPrivacy> {
    let entry = Entry {
        name: "defaults".to_owned(),
        at: 0,
        node: Node::new(0, Content::Table(defaults.to_vec())),
    };
    let mut unreported = Diagnostics::new(Path::new(""), "");
    let fields = Fields::open("[defaults]".to_owned(), &entry, &mut unreported)?;
    read(
        &fields,
        &mut Context {
            catalog: context.catalog,
            folder: context.folder,
            environment: context.environment,
            sources: context.sources,
            diagnostics: &mut unreported,
        },
    )
}

fn read_table(source: &str, entry: &Entry, read: &mut RawPrivacy, context: &mut Context<'_>) {
    let owner = format!("`privacy` of {source}");
    let Some(mut fields) = Fields::open(owner, entry, context.diagnostics) else {
        return;
    };
    fields.expect(&keys::names(PRIVACY), false, context.diagnostics);
    for (key, form) in FORMS {
        let classes = fields.texts(key, context.diagnostics).into_value();
        for class in classes.into_iter().flatten() {
            read.classes.entry(class.value.clone()).or_insert(class.at);
            let before = read.privacy.classes.insert(Arc::from(class.value.as_str()), form);
            if before.is_some_and(|before| before != form) {
                let message = format!("\"{}\" is both in `blur` and in `blackout`", class.value);
                let hint = Some("leave it in one of them".to_owned());
                context.diagnostics.add(class.at, message, hint);
            }
        }
    }
    read.privacy.regions = regions(&fields, context);
}

/// One polygon, or a list of polygons and of tables with one.
fn regions(fields: &Fields<'_>, context: &mut Context<'_>) -> Vec<(HiddenForm, Outline)> {
    let list = fields.read("regions", context.diagnostics, |node| match &node.content {
        Content::List(list) => Ok((node.clone(), list.clone())),
        _ => Err("a list of polygons, such as [[[0, 0], [1, 0], [1, 0.2]]]".to_owned()),
    });
    let Some((node, list)) = list.into_value() else {
        return Vec::new();
    };
    if objects::is_point(list.first()) {
        let region = objects::polygon("regions", &fields.owner, &node, context);
        return region
            .map(|outline| (HiddenForm::Blackout, outline))
            .into_iter()
            .collect();
    }
    if list.len() > MAX_REGIONS {
        let message = format!(
            "`regions` has {} polygons; {MAX_REGIONS} are the most",
            list.len()
        );
        context.diagnostics.add(node.at, message, None);
        return Vec::new();
    }
    list.iter()
        .filter_map(|node| region(&fields.owner, node, context))
        .collect()
}

fn region(owner: &str, node: &Node, context: &mut Context<'_>) -> Option<(HiddenForm, Outline)> {
    if !matches!(node.content, Content::Table(_)) {
        let outline = objects::polygon("regions", owner, node, context)?;
        return Some((HiddenForm::Blackout, outline));
    }
    let entry = Entry {
        name: "regions".to_owned(),
        at: node.at,
        node: node.clone(),
    };
    let mut fields = Fields::open(format!("`regions` of {owner}"), &entry, context.diagnostics)?;
    fields.expect(&keys::names(REGION), false, context.diagnostics);
    let form = fields.word("form", &FORMS, context.diagnostics).into_value();
    let Some(points) = fields.entry("points") else {
        let message = format!("{} has no `points`", fields.owner);
        let hint = Some("the corners of a polygon: points = [[0, 0], [1, 0], [1, 0.2]]".to_owned());
        context.diagnostics.add(node.at, message, hint);
        return None;
    };
    let outline = objects::polygon("points", owner, &points.node, context)?;
    Some((form.unwrap_or(HiddenForm::Blackout), outline))
}
