from qualm.compiler.plan.compiled_files import HEADER, owner


def test_a_compiled_file_says_whose_it_is(tmp_path):
    file = tmp_path / "dvc.yaml"
    file.write_text(HEADER.format(spec="my-spec.v2") + "stages: {}\n")
    assert owner(file) == "my-spec.v2"


def test_other_files_are_nobodys(tmp_path):
    file = tmp_path / "dvc.yaml"
    assert owner(file) is None
    for content in (b"stages: {}\n", b"", b"\xff\xfe\n", b"\n" + HEADER.format(spec="s").encode()):
        file.write_bytes(content)
        assert owner(file) is None
