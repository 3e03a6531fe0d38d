//! The sink `kafka` against the mock cluster of librdkafka, which speaks Kafka's protocol on loopback; its broker is down and up
//! again five times. `WEIR_EVENTS` says how many events; without it they are few. A test of its own, since librdkafka is compiled
//! for it: `make test-features NAME=kafka`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../operators/tests/programs/delivered.rs"]
#[allow(dead_code, reason = "other tests of sinks use the rest")]
mod delivered;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::Value as Json;
use weir_flow::Value;

use delivered::{STREAMS, check, dead_letters, events, open, reasons, send, text, wait, wait_killing};

const TOPIC: &str = "weir";
const PARTITIONS: i32 = 3;

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, PARTITIONS, 1).unwrap();
    cluster
}

fn brokers(cluster: &Cluster) -> Value {
    Value::Texts(vec![cluster.bootstrap_servers()])
}

/// All that is in the topic, by partition: keys, ids of events, ids of incidents.
fn records(cluster: &Cluster) -> BTreeMap<i32, Vec<(String, String, String)>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "watcher")
        .create()
        .unwrap();
    let wait = Duration::from_secs(30);
    let (mut waiting, mut places) = (0, TopicPartitionList::new());
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(TOPIC, partition, wait).unwrap();
        waiting += high - low;
        places
            .add_partition_offset(TOPIC, partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&places).unwrap();
    let mut records: BTreeMap<i32, Vec<(String, String, String)>> = BTreeMap::new();
    while waiting > 0 {
        let message = consumer
            .poll(wait)
            .expect("a record within half a minute")
            .unwrap();
        let event: Json = serde_json::from_slice(message.payload().unwrap()).unwrap();
        let header = message.headers().unwrap().get(0);
        assert_eq!(header.key, "weir-event");
        let of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let record = (
            of(message.key().unwrap()),
            of(header.value.unwrap()),
            event["id"].as_str().unwrap().to_owned(),
        );
        records.entry(message.partition()).or_default().push(record);
        waiting -= 1;
    }
    records
}

#[test]
fn a_cluster_that_goes_and_comes_gets_every_event_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, events) = (cluster(), events());
    let path = folder.path().join("undelivered.jsonl");
    let mut kafka = open(
        "kafka",
        &[
            ("brokers", brokers(&cluster)),
            ("path", text(path.to_str().unwrap())),
        ],
    );
    send(&mut *kafka, events);
    let counts = wait_killing(&*kafka, events, || {
        cluster.broker_down(1).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        cluster.broker_up(1).unwrap();
    });
    kafka.finish().unwrap();
    assert_eq!(
        (counts["delivered"], counts["lost"]),
        (events as u64, 0),
        "{counts:?}"
    );
    let records = records(&cluster);
    let mut partitions = BTreeMap::<&str, BTreeSet<i32>>::new();
    for (partition, records) in &records {
        for (key, event, incident) in records {
            partitions.entry(key).or_default().insert(*partition);
            assert!(event.starts_with(incident) && incident.starts_with(key.as_str()));
        }
    }
    assert!(
        partitions.values().all(|places| places.len() == 1) && partitions.len() == STREAMS.len(),
        "{partitions:?}"
    );
    // Order is that of a partition: partitions are read one after the other.
    let taken: Vec<String> = records
        .into_values()
        .flatten()
        .map(|(_, _, incident)| incident)
        .collect();
    check(events, &taken, &dead_letters(&path));
    println!(
        "{events} events, down 5 times: {counts:?}, {} in the topic",
        taken.len()
    );
}

#[test]
fn what_the_cluster_refuses_is_in_the_file_and_what_it_cannot_do_now_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster();
    let path = folder.path().join("undelivered.jsonl");
    let open_topic = |topic: &str, give_up_after: f64| {
        let keys = [
            ("brokers", brokers(&cluster)),
            ("topic", text(topic)),
            ("path", text(path.to_str().unwrap())),
            ("give_up_after", Value::Number(give_up_after)),
        ];
        open("kafka", &keys)
    };
    let mut kafka = open_topic(TOPIC, 60.0);
    let errors = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    send(&mut *kafka, 4);
    let counts = wait(&*kafka, |_| {});
    kafka.finish().unwrap();
    assert_eq!(
        (counts["delivered"], counts["dead_letters"]),
        (3, 1),
        "{counts:?}"
    );
    let given_up = dead_letters(&path);
    let taken = records(&cluster).into_values().flatten();
    let taken: Vec<String> = taken.map(|(_, _, incident)| incident).collect();
    check(4, &taken, &given_up);
    assert!(reasons(&path)[0].contains("the cluster rejected it"));
    std::fs::remove_file(&path).unwrap();

    let mut nowhere = open_topic("nothing-there", 0.05);
    send(&mut *nowhere, 1);
    wait(&*nowhere, |_| {});
    nowhere.finish().unwrap();
    let reasons = reasons(&path);
    assert!(
        reasons[0].contains("there is no topic nothing-there"),
        "{reasons:?}"
    );
}
