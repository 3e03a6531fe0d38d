//! Tables in Parquet, read back by the crate's own reader.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use weir_flow::{
    Attribute, DeliveredObject, Delivery, Frame, Image, Notice, Object, Points, Rect, Settings, Sink,
    TrackEnd, TrackState, Value,
};
use weir_operators::sinks::{check_writable, sink};

fn settings(path: &Path, keys: &[(&str, Value)]) -> Settings {
    let path = ("path", Value::Text(path.display().to_string()));
    let keys = keys.iter().cloned().chain([path]);
    Settings(keys.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn open(path: &Path, keys: &[(&str, Value)]) -> Box<dyn Sink> {
    sink("parquet", &settings(path, keys)).unwrap().open().unwrap()
}

fn object(id: u32, class: &str, track: Option<u64>) -> DeliveredObject {
    DeliveredObject {
        id,
        object: Object {
            candidate: false,
            class: class.into(),
            score: 0.75,
            rect: Rect::new(10.0, 20.0, 40.5, 60.0),
            parent: None,
            points: Points::None,
        },
        parent: None,
        attributes: match track {
            Some(_) => vec![("plate".into(), Attribute::Number { value: 1.5 })],
            None => Vec::new(),
        },
        track: track.map(|id| TrackState {
            id,
            ..TrackState::default()
        }),
    }
}

fn delivery(stream: &str, index: u64, time_ms: u64, objects: Vec<DeliveredObject>) -> Delivery {
    Delivery {
        time_ms,
        latency_ms: 1.0,
        objects,
        ..Delivery::new(
            stream,
            Frame::new(index, index as f64 * 40.0, Image::from_rgb(1, 1, vec![0; 3])),
        )
    }
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Rows by row group.
fn read(path: PathBuf) -> Vec<Vec<Row>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let groups = 0..reader.num_row_groups();
    let rows = |group: usize| {
        let group = reader.get_row_group(group).unwrap();
        let rows = group.get_row_iter(None).unwrap();
        rows.map(Result::unwrap).collect()
    };
    groups.map(rows).collect()
}

fn cell(row: &Row, column: &str) -> Field {
    let cell = row.get_column_iter().find(|(name, _)| *name == column);
    cell.unwrap().1.clone()
}

#[test]
fn objects_of_all_streams_are_read_back_in_bounded_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    let mut table = open(&tables, &[("row_group", Value::Number(1_000.0))]);
    for index in 0..1_250 {
        let stream = if index % 2 == 0 { "north" } else { "south" };
        let objects = vec![object(0, "car", Some(1 << 63)), object(1, "t\u{fc}r", None)];
        table
            .accept(&delivery(stream, index, 1_000 + index, objects))
            .unwrap();
    }
    assert_eq!(names(&tables), ["19700101T000001.000Z.parquet.part"]);
    table.finish().unwrap();
    assert_eq!(names(&tables), ["19700101T000001.000Z.parquet"]);
    assert_eq!(
        (
            table.counts()["rows"],
            table.counts()["rows_lost"],
            table.counts()["files"]
        ),
        (2_500, 0, 1)
    );

    let groups = read(tables.join("19700101T000001.000Z.parquet"));
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1_000, 500]);
    let rows: Vec<&Row> = groups.iter().flatten().collect();
    for (number, row) in (0..).zip(rows) {
        let (index, is_car) = (number / 2, number % 2 == 0);
        let stream = if index % 2 == 0 { "north" } else { "south" };
        assert_eq!(cell(row, "stream"), Field::Str(stream.to_owned()));
        assert_eq!(cell(row, "frame"), Field::ULong(index));
        assert_eq!(
            cell(row, "time"),
            Field::TimestampMillis(1_000 + index.cast_signed())
        );
        assert_eq!(cell(row, "pts_ms"), Field::Double(index as f64 * 40.0));
        assert_eq!(cell(row, "score"), Field::Float(0.75));
        assert_eq!(cell(row, "x1"), Field::Float(40.5));
        assert_eq!(cell(row, "parent"), Field::Null);
        let (class, track) = if is_car {
            ("car", Field::ULong(1 << 63))
        } else {
            ("t\u{fc}r", Field::Null)
        };
        assert_eq!(cell(row, "class"), Field::Str(class.to_owned()));
        assert_eq!(cell(row, "track"), track);
        match cell(row, "attributes") {
            Field::Str(json) if is_car => assert!(json.contains("plate"), "{json}"),
            Field::Null if !is_car => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_is_complete_after_some_time_or_some_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = open(folder.path(), &[("rotate_every", Value::Number(60.0))]);
    for (index, time_ms) in [0, 59_000, 61_000, 62_000, 200_000].into_iter().enumerate() {
        let objects = vec![object(0, "car", None)];
        table
            .accept(&delivery("north", index as u64, time_ms, objects))
            .unwrap();
    }
    // An hour without objects completes what there is.
    table
        .accept(&delivery("north", 9, 3_600_000, Vec::new()))
        .unwrap();
    let expected = [
        "19700101T000000.000Z.parquet",
        "19700101T000101.000Z.parquet",
        "19700101T000320.000Z.parquet",
    ];
    assert_eq!(names(folder.path()), expected);
    let rows = expected.map(|name| read(folder.path().join(name)).concat().len());
    assert_eq!(rows, [2, 2, 1]);
    table.finish().unwrap();
    assert_eq!(names(folder.path()), expected);

    let folder = tempfile::tempdir().unwrap();
    let keys = [
        ("rotate_bytes", Value::Number(1.0)),
        ("row_group", Value::Number(1_000.0)),
    ];
    let mut table = open(folder.path(), &keys);
    for index in 0..2_500 {
        let objects = vec![object(0, "car", None)];
        table.accept(&delivery("north", index, 7, objects)).unwrap();
    }
    table.finish().unwrap();
    assert_eq!(
        names(folder.path()).len(),
        3,
        "files of one moment have names of their own"
    );
    let rows = names(folder.path())
        .iter()
        .map(|name| read(folder.path().join(name)).concat().len())
        .sum::<usize>();
    assert_eq!(rows, 2_500);
}

#[test]
fn rows_are_tracks_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = open(folder.path(), &[("rows", Value::Text("tracks".to_owned()))]);
    let ended = |id: u64| TrackEnd {
        id,
        class: "car".into(),
        began_ms: 1_000,
        last_seen_ms: 2_500,
        began_pts_ms: 0.0,
        last_pts_ms: 1_500.0,
        attributes: Vec::new(),
    };
    let mut with_track = delivery("north", 0, 2_000, vec![object(0, "car", Some(7))]);
    with_track.ended_tracks = vec![ended(7)];
    table.accept(&with_track).unwrap();
    table
        .on_notice(&Notice::Analytics {
            stream: "south".into(),
            ended_tracks: vec![ended(8)],
            incidents: Vec::new(),
        })
        .unwrap();
    table.finish().unwrap();
    let rows = read(folder.path().join(&names(folder.path())[0])).concat();
    let tracks: Vec<(Field, Field)> = rows
        .iter()
        .map(|row| (cell(row, "stream"), cell(row, "track")))
        .collect();
    let expected =
        [("north", 7), ("south", 8)].map(|(stream, id)| (Field::Str(stream.into()), Field::ULong(id)));
    assert_eq!(tracks, expected);
    assert_eq!(cell(&rows[0], "last_seen"), Field::TimestampMillis(2_500));
}

#[test]
fn what_a_kill_leaves_has_another_name_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("row_group", Value::Number(1_000.0))];
    let mut killed = open(folder.path(), &keys);
    for index in 0..1_500 {
        let objects = vec![object(0, "car", None)];
        killed.accept(&delivery("north", index, 5, objects)).unwrap();
    }
    drop(killed);
    let left = "19700101T000000.005Z.parquet.part";
    assert_eq!(names(folder.path()), [left]);
    let before = std::fs::read(folder.path().join(left)).unwrap();
    let mut next = open(folder.path(), &keys);
    next.accept(&delivery("north", 0, 5, vec![object(0, "car", None)]))
        .unwrap();
    next.finish().unwrap();
    assert_eq!(names(folder.path()), ["19700101T000000.005Z-2.parquet", left]);
    assert_eq!(std::fs::read(folder.path().join(left)).unwrap(), before);
}

#[test]
fn rows_that_cannot_be_written_are_counted_and_later_ones_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    let mut table = open(&tables, &[]);
    std::fs::remove_dir(&tables).unwrap();
    std::fs::write(&tables, "a file").unwrap();
    let car = || vec![object(0, "car", None)];
    table.accept(&delivery("north", 0, 0, car())).unwrap_err();
    // Not tried again at once.
    table.accept(&delivery("north", 1, 1_000, car())).unwrap();
    std::fs::remove_file(&tables).unwrap();
    table.accept(&delivery("north", 2, 5_000, car())).unwrap();
    table.finish().unwrap();
    let counts = table.counts();
    assert_eq!((counts["rows"], counts["rows_lost"], counts["files"]), (3, 2, 1));
}

#[test]
fn folders_that_cannot_hold_a_table_are_refused_before_a_run() {
    let refused = |path: &Path| {
        check_writable("parquet", &settings(path, &[]), &[])
            .unwrap_err()
            .to_string()
    };
    assert!(refused(Path::new("-")).contains("name a folder"));
    assert!(refused(Path::new("a/{stream}")).contains("leave {stream} out"));
    assert!(refused(Path::new("")).contains("no `path`"));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(refused(file.path()).contains("it is no folder"));
}
