"""Architectures of transformers at small configurations, by family."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from torch import nn

from zoo.entry import Entry

_VOCABULARY = 100
_LENGTH = 12
# Options of every configuration, unless its own options say None.
_SMALL: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
}
_SEQ2SEQ: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 2,
}
_T5: dict[str, Any] = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_IMAGE: dict[str, Any] = {"image_size": 32, "patch_size": 8}
_NO_STACK: dict[str, Any] = {
    "head_dim": None,
    "hidden_size": None,
    "num_hidden_layers": None,
    "num_attention_heads": None,
}
_STAGES: dict[str, Any] = {
    **_NO_STACK,
    "image_size": 64,
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 16, 24, 32],
    "embedding_size": 8,
}
_WINDOWS: dict[str, Any] = {
    **_NO_STACK,
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [1, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
_WAVE: dict[str, Any] = {
    "conv_dim": [16, 16, 16],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
_EXPERTS: dict[str, Any] = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1,
}
_DETECTOR: dict[str, Any] = {
    **_SEQ2SEQ,
    "num_queries": 10,
    "use_timm_backbone": False,
    "backbone": None,
    "use_pretrained_backbone": False,
}

Inputs = dict[str, torch.Tensor]


def _text(batch: int) -> Inputs:
    mask = torch.ones(batch, _LENGTH, dtype=torch.long)
    mask[-1, -3:] = 0
    return {"input_ids": torch.randint(3, _VOCABULARY, (batch, _LENGTH)), "attention_mask": mask}


def _tokens(batch: int) -> Inputs:
    return {"input_ids": torch.randint(3, _VOCABULARY, (batch, _LENGTH))}


def _pair(batch: int) -> Inputs:
    return {**_text(batch), "decoder_input_ids": torch.randint(3, _VOCABULARY, (batch, 7))}


def _image(batch: int, size: int = 32) -> Inputs:
    return {"pixel_values": torch.rand(batch, 3, size, size)}


def _captioned(batch: int) -> Inputs:
    return {**_text(batch), **_image(batch)}


def _wave(batch: int) -> Inputs:
    return {"input_values": torch.randn(batch, 1600)}


def _speech(batch: int) -> Inputs:
    return {
        "input_features": torch.randn(batch, 80, 60),
        "decoder_input_ids": torch.randint(3, _VOCABULARY, (batch, 7)),
    }


def _spectrogram(batch: int) -> Inputs:
    return {"input_values": torch.randn(batch, 40, 16)}


def _layout(batch: int) -> Inputs:
    corners = torch.randint(0, 50, (batch, _LENGTH, 2))
    return {**_text(batch), "bbox": torch.cat([corners, corners + 10], -1)}


_Configure = dict[str, Any] | Callable[[], dict[str, Any]]


def _resnet() -> Any:
    return transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"]
    )


def _clip_parts() -> dict[str, Any]:
    return {"text_config": _SMALL, "vision_config": {**_SMALL, **_IMAGE}, "projection_dim": 16}


_FAMILIES: list[tuple[Callable[[int], Inputs], dict[str, _Configure]]] = [
    (
        _text,
        {
            "Albert": {"embedding_size": 16},
            "Bert": {},
            "BigBird": {"attention_type": "original_full"},
            "Camembert": {},
            "ConvBert": {"embedding_size": 32},
            "Deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
            "DebertaV2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
            "DistilBert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4},
            "Electra": {"embedding_size": 16},
            "Ernie": {},
            "MPNet": {},
            "ModernBert": {},
            "MobileBert": {"embedding_size": 16, "intra_bottleneck_size": 16},
            "RoFormer": {"embedding_size": 32},
            "Roberta": {},
            "SqueezeBert": {"embedding_size": 32},
            "XLMRoberta": {},
        },
    ),
    (_tokens, {"FNet": {"tpu_short_seq_length": _LENGTH}}),
    (
        _text,
        {
            "Bloom": {"n_layer": 2, "n_head": 4},
            "CodeGen": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_ctx": 64},
            "Cohere": {},
            "Falcon": {"new_decoder_architecture": True, "head_dim": None},
            "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
            "GPTJ": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
            "GPTNeo": {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
            "GPTNeoX": {},
            "Gemma": {},
            "Gemma2": {"query_pre_attn_scalar": 8},
            "Granite": {},
            "Llama": {},
            "Mistral": {},
            "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2},
            "OPT": {"ffn_dim": 64, "word_embed_proj_dim": 32},
            "Olmo2": {},
            "Phi": {},
            "Phi3": {},
            "Qwen2": {},
            "Qwen3": {},
            "StableLm": {},
            "Starcoder2": {},
        },
    ),
    (_text, {"Mixtral": _EXPERTS, "Olmoe": _EXPERTS, "Qwen2Moe": _EXPERTS}),
    (_tokens, {"Mamba": {"state_size": 4}, "FalconMamba": {"state_size": 4}}),
    (
        _pair,
        {
            "Bart": _SEQ2SEQ,
            "Blenderbot": _SEQ2SEQ,
            "MBart": _SEQ2SEQ,
            "MT5": _T5,
            "Marian": _SEQ2SEQ,
            "Pegasus": _SEQ2SEQ,
            "T5": _T5,
        },
    ),
    (
        _image,
        {
            "Beit": _IMAGE,
            "DeiT": _IMAGE,
            "Dinov2": _IMAGE,
            "Swin": _WINDOWS,
            "Swinv2": _WINDOWS,
            "ViT": _IMAGE,
            "Yolos": {**_IMAGE, "image_size": [32, 32], "num_detection_tokens": 5},
        },
    ),
    (
        functools.partial(_image, size=64),
        {
            "ConvNext": _STAGES,
            "ConvNextV2": _STAGES,
            "MobileNetV2": {"image_size": 64},
            "PoolFormer": {**_STAGES, "num_encoder_blocks": 4},
            "RegNet": _STAGES,
            "ResNet": _STAGES,
            "Segformer": {**_STAGES, "num_attention_heads": [1, 2, 2, 4]},
        },
    ),
    (_wave, {"Hubert": _WAVE, "Wav2Vec2": _WAVE, "WavLM": _WAVE}),
    (
        _spectrogram,
        {"AST": {"num_mel_bins": 16, "max_length": 40, "patch_size": 8, "frequency_stride": 4, "time_stride": 4}},
    ),
    (
        _speech,
        {"Whisper": {**_SEQ2SEQ, "num_mel_bins": 80, "max_source_positions": 30, "max_target_positions": 20}},
    ),
    (_layout, {"LayoutLM": {"max_2d_position_embeddings": 128}}),
    (_captioned, {"CLIP": _clip_parts, "Siglip": _clip_parts}),
    (
        functools.partial(_image, size=64),
        {
            "ConditionalDetr": lambda: {**_DETECTOR, "backbone_config": _resnet()},
            "DeformableDetr": lambda: {**_DETECTOR, "backbone_config": _resnet(), "num_feature_levels": 3},
            "Detr": lambda: {**_DETECTOR, "backbone_config": _resnet()},
        },
    ),
]


def entries() -> Iterator[Entry]:
    for inputs, architectures in _FAMILIES:
        for architecture, configure in architectures.items():
            yield Entry(
                f"transformers/{architecture}",
                functools.partial(_build, architecture, configure),
                functools.partial(_variant, inputs),
            )


def _build(architecture: str, configure: _Configure) -> nn.Module:
    options = configure() if callable(configure) else configure
    given = {key: value for key, value in {**_SMALL, **options}.items() if value is not None}
    config = getattr(transformers, f"{architecture}Config")(**given)
    return getattr(transformers, f"{architecture}Model")(config)


def _variant(inputs: Callable[[int], Inputs], variant: int) -> Inputs:
    torch.manual_seed(variant)
    return inputs(1 + variant)
