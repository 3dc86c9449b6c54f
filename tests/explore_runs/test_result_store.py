def test_document_put_is_got_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, option="--results")
    store.put("referee", "abcd", {"cycles": 1.5, "stack": {"base": 0.1}})
    assert store.get("referee", "abcd") == {"cycles": 1.5, "stack": {"base": 0.1}}
    assert store.get("profile", "abcd") is None
    place = next(tmp_path.glob("referee/*/*.json"))
    whole = place.read_bytes()
    for damaged in (whole[:-3], b"", whole.replace(b"1.5", b"2.5"), b"\xff\xfe"):
        place.write_bytes(damaged)
        assert store.get("referee", "abcd") is None


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, option="--results")

    def half(place: Path) -> None:
        place.mkdir()
        (place / "a").write_text("half")
        raise UsageError("stopped")

    with pytest.raises(UsageError, match="stopped"):
        store.make_folder("feed", half)
    assert not store.folder_of("feed").exists()
    assert list((tmp_path / ".new").iterdir()) == []
    made = store.make_folder("feed", lambda place: place.mkdir())
    assert store.make_folder("feed", half) == made


def test_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--results"):
        ResultStore(tmp_path / "file", option="--results")


