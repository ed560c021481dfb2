from qualm.registry.entries.model_folders import default_template, folder_digest, folder_fault, model_fault


def model(folder, **files):
    for name, content in {"config.json": "{}", "a.safetensors": "weights", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_a_whole_folder_and_what_may_be_missing(tmp_path):
    assert folder_fault(model(tmp_path / "m")) == ""
    (tmp_path / "m" / "a.safetensors").rename(tmp_path / "m" / "a.bin")
    assert "expected weights as *.safetensors" in folder_fault(tmp_path / "m")
    assert "expected config.json" in folder_fault(tmp_path / "none") and "none.dvc" in folder_fault(tmp_path / "none")


def test_a_vision_language_model_has_a_processor_and_a_tokenizer(tmp_path):
    assert "expected config.json" in model_fault(tmp_path / "none")
    bare = model(tmp_path / "m", **{"config.json": '{"vision_config": {}}'})
    assert "expected a processor (processor_config.json or preprocessor_config.json)" in model_fault(bare)
    assert "expected a tokenizer" in model_fault(model(bare, **{"preprocessor_config.json": "{}"}))
    assert model_fault(model(bare, **{"tokenizer.json": "{}"})) == ""
    (bare / "tokenizer.json").rename(bare / "tokenizer.model")
    (bare / "preprocessor_config.json").rename(bare / "processor_config.json")
    assert model_fault(bare) == ""
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    assert model_fault(tmp_path / "adapter") == ""


def test_a_text_only_model_needs_no_image_processor(tmp_path):
    bare = model(tmp_path / "m", **{"config.json": '{"model_type": "llama"}'})
    assert "expected a tokenizer" in model_fault(bare)
    assert model_fault(model(bare, **{"tokenizer.json": "{}"})) == ""


def test_of_several_templates_the_default_one_is_taken():
    assert (
        default_template({"tools": "t", "default": "d"}) == "d"
        and default_template({"tools": "t"}) == ""
        and default_template("one") == "one"
    )


def test_the_digest_is_of_names_and_contents_without_prose(tmp_path):
    plain = folder_digest(model(tmp_path / "a"))
    assert folder_digest(model(tmp_path / "b", **{"README.md": "x", ".lock": "x"})) == plain
    others = {"config.json": "{ }", "more.json": "{}", "sub/config.json": "{}"}
    digests = {folder_digest(model(tmp_path / f"c{i}", **{name: text})) for i, (name, text) in enumerate(others.items())}
    assert len(digests | {plain}) == 4
    (tmp_path / "a" / "a.safetensors").rename(tmp_path / "a" / "b.safetensors")
    assert folder_digest(tmp_path / "a") != plain
