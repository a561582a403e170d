use super::*;

fn scratch(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("anteroom-load-{}-{name}", std::process::id()))
}

#[test]
fn a_record_survives_its_line_and_leaves_out_what_is_not_there() {
    let mut record = Record::new(7, Role::App, Kind::Poll, 12);
    record.called = Some(true);
    record.position_range = Some([3, 9]);
    let line = serde_json::to_string(&record).unwrap();
    assert!(!line.contains("expires_at"), "{line}");
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
}

#[test]
fn several_histories_are_read_as_one_in_the_order_of_sending() {
    let paths = [scratch("a"), scratch("b")];
    for (at, path) in paths.iter().enumerate() {
        let (recorder, thread) = Recorder::create(path).unwrap();
        for step in 0..3u64 {
            recorder.take(Record::new(at as u64, Role::Bot, Kind::Navigate, 10 * step + at as u64));
        }
        drop(recorder);
        assert_eq!(thread.join().unwrap().unwrap(), 3);
    }
    let records = read_all(&paths).unwrap();
    let times: Vec<u64> = records.iter().map(|record| record.t_sent_us).collect();
    assert_eq!(times, [0, 1, 10, 11, 20, 21]);
    for path in paths {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_line_cut_off_by_a_crash_is_left_out_only_at_the_end() {
    let path = scratch("cut");
    let line = serde_json::to_string(&Record::new(1, Role::Ordinary, Kind::Page, 5)).unwrap();
    std::fs::write(&path, format!("{line}\n{}", &line[..20])).unwrap();
    assert_eq!(read(&path).unwrap().len(), 1);
    std::fs::write(&path, format!("{}\n{line}\n", &line[..20])).unwrap();
    assert!(matches!(read(&path), Err(HistoryError::Line { line: 1, .. })));
    std::fs::write(&path, "{\"visitor\": \"one\"}\n").unwrap();
    assert!(read(&path).is_err());
    std::fs::remove_file(path).unwrap();
}
