"""GroundingDINO and SAM with a few thousand random weights, built from configs and saved as published ones are."""

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "red", "blue", "green", "cube", "sphere", "cylinder", "dog", "cat"]


def tiny_detector(folder: Path, seed: int = 0) -> Path:
    """A GroundingDINO with its processor; answers noise, in the right shapes."""
    import torch
    from transformers import (
        BertConfig,
        BertTokenizerFast,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessorPil,
        GroundingDinoProcessor,
        SwinConfig,
    )

    torch.manual_seed(seed)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    backbone = SwinConfig(
        image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4, out_indices=[2, 3, 4]
    )
    text = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=64
    )
    config = GroundingDinoConfig(
        backbone_config=backbone, text_config=text, d_model=64, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=6, num_feature_levels=4, max_text_len=32,
        disable_custom_kernels=True,
    )  # fmt: skip
    GroundingDinoForObjectDetection(config).save_pretrained(folder)
    picture = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=32)
    GroundingDinoProcessor(picture, tokenizer).save_pretrained(folder)
    return folder


def tiny_segmenter(folder: Path, seed: int = 0) -> Path:
    """A SAM with its processor, likewise."""
    import torch
    from transformers import (
        SamConfig,
        SamImageProcessorPil,
        SamMaskDecoderConfig,
        SamModel,
        SamProcessor,
        SamPromptEncoderConfig,
        SamVisionConfig,
    )

    torch.manual_seed(seed)
    vision = SamVisionConfig(
        hidden_size=16, output_channels=16, num_hidden_layers=1, num_attention_heads=2, image_size=64, patch_size=8, window_size=4,
        global_attn_indexes=[0], num_pos_feats=8, mlp_ratio=1.0, initializer_range=0.02,
    )  # fmt: skip
    prompt = SamPromptEncoderConfig(hidden_size=16, image_size=64, patch_size=8, mask_input_channels=4)
    decoder = SamMaskDecoderConfig(
        hidden_size=16, mlp_dim=16, num_hidden_layers=1, num_attention_heads=2, iou_head_hidden_dim=16, iou_head_depth=2
    )
    SamModel(SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)).save_pretrained(folder)
    size, masks = {"longest_edge": 64}, {"longest_edge": 32}
    picture = SamImageProcessorPil(
        size=size, pad_size={"height": 64, "width": 64}, mask_size=masks, mask_pad_size={"height": 32, "width": 32}
    )
    SamProcessor(picture).save_pretrained(folder)
    return folder
