"""More models, each with something of its own: windows, states instead of caches, ears, code that knows the rest.

The parts of their config.json that sizes follow from.
"""

GEMMA3_4B = {
    "model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type":
    "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024},
}  # fmt: skip
GEMMA3_27B = {
    "model_type": "gemma3", "text_config": {"head_dim": 128, "hidden_size": 5376, "intermediate_size":
    21504, "model_type": "gemma3_text", "num_attention_heads": 32, "num_hidden_layers": 62,
    "num_key_value_heads": 16, "sliding_window": 1024},
}  # fmt: skip
GEMMA2_9B = {
    "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 256, "num_hidden_layers": 42, "vocab_size": 256000, "sliding_window":
    4096, "max_position_embeddings": 8192,
}  # fmt: skip
MISTRAL_7B = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 32000, "sliding_window": 4096,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
LLAVA_7B = {
    "model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096,
    "vocab_size": 32064}, "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24},
}  # fmt: skip
WHISPER_LARGE_V3 = {
    "model_type": "whisper", "d_model": 1280, "decoder_layers": 32, "encoder_layers": 32, "num_hidden_layers":
    32, "decoder_attention_heads": 20, "encoder_attention_heads": 20, "decoder_ffn_dim": 5120,
    "encoder_ffn_dim": 5120, "vocab_size": 51866, "max_source_positions": 1500, "max_target_positions": 448,
    "torch_dtype": "float16",
}  # fmt: skip
FALCON_MAMBA_7B = {
    "model_type": "falcon_mamba", "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64,
    "state_size": 16, "vocab_size": 65024, "expand": 16, "conv_kernel": 4, "tie_word_embeddings": False,
}  # fmt: skip
BGE_M3 = {
    "model_type": "xlm-roberta", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
    "num_hidden_layers": 24, "vocab_size": 250002, "max_position_embeddings": 8194, "torch_dtype": "float32",
}  # fmt: skip
QWEN3_NEXT_80B = {
    "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
    "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "vocab_size": 151936, "num_experts": 512, "num_experts_per_tok": 10,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1,
    "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_H_8B = {
    "model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504, "num_hidden_layers": 52,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attention_head_dim": 128,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "mamba_num_heads": 128,
    "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "vocab_size": 131072, "max_position_embeddings":
    8192, "tie_word_embeddings": False,
}  # fmt: skip
JAMBA_MINI = {
    "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4,
    "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
    "mamba_d_state": 16, "mamba_expand": 2, "mamba_d_conv": 4, "vocab_size": 65536, "max_position_embeddings":
    262144, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA4_MAVERICK = {
    "model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 5120,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 48,
    "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 128,
    "interleave_moe_layer_step": 2, "num_experts_per_tok": 1, "vocab_size": 202048, "tie_word_embeddings":
    False},
}  # fmt: skip
PHI3_MINI = {
    "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
    "num_key_value_heads": 32, "num_hidden_layers": 32, "vocab_size": 32064, "sliding_window": 2047,
    "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
    "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim":
    128, "max_position_embeddings": 163840, "tie_word_embeddings": False,
}  # fmt: skip
