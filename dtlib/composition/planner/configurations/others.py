"""Options of the programs that say nothing of a layout, and what became of those of old files.

`PASSED_OVER` are patterns, by program: a file that has such options is read as if it had not.
`FORMER` says, for a name of an earlier version, what says the same now.
"""

# fmt: off
PASSED_OVER = {
    "torchtitan": (
        "checkpoint*", "comm*", "compile*", "dataloader*", "debug*", "dump_folder",
        "hf_assets_path", "loss*", "lr_scheduler*", "metrics*", "model_spec*", "optimizer*",
        "override*", "parallelism.context_parallel_*", "parallelism.enable_fsdp_symm_mem",
        "parallelism.spmd_backend", "profiler*", "tokenizer*", "training.dtype", "training.gc_*",
        "training.max_norm", "training.mixed_precision_*", "training.steps", "validator*",
    ),
    "megatron": (
        "--*adam*", "--*data-path*", "--*iters", "--*loss*", "--*overlap*", "--*tokenizer*",
        "--accumulate-*", "--apply-*", "--attention-*", "--bf16", "--calculate-*", "--ckpt-*",
        "--clip-grad", "--cp-comm-type", "--cross-entropy-*", "--cuda-graph-*", "--data-cache-path",
        "--dataloader-type", "--ddp-*", "--decoupled-*", "--dist-*", "--distributed-*", "--empty-*",
        "--enable-experimental", "--eod-*", "--eval-*", "--exit-*", "--fp16*", "--fp8-*",
        "--fsdp-*", "--grad-reduce-*", "--hidden-*", "--init-*", "--keep-fp8-*", "--load*",
        "--log-*", "--lr*", "--make-*", "--manual-gc*", "--master*", "--merge-file", "--min-lr",
        "--mock-data", "--moe-*", "--no-*", "--node*", "--norm-*", "--num-workers", "--optimizer",
        "--profile*", "--qk-layernorm", "--rampup-batch-size", "--rdzv*", "--rotary-*", "--save*",
        "--seed", "--split", "--step-batch-size-schedule", "--te-*", "--tensorboard-*",
        "--tiktoken-*", "--timing-*", "--tp-comm-*", "--train-samples", "--transformer-impl",
        "--use-flash-attn", "--use-mcore-models", "--use-nccl-ub", "--use-rope-scaling",
        "--use-rotary-*", "--vocab-*", "--wandb-*", "--weight-decay*",
    ),
    "deepspeed": (
        "activation_checkpointing.*", "aio*", "amp*", "autotuning*", "bf16*", "checkpoint*",
        "comms_logger*", "communication_data_type", "compile*", "csv_monitor*", "data_types*",
        "disable_allgather", "dump_state", "expert_parallel.*", "flops_profiler*", "fp16*",
        "gradient_*", "memory_breakdown", "monitor_config*", "optimizer*", "pipeline.*",
        "prescale_gradients", "scheduler*", "seq_parallel_communication_data_type",
        "sparse_gradients", "steps_per_print", "tensor_parallel.*", "tensorboard*",
        "torch_autocast*", "wall_clock_breakdown", "wandb*", "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer", "zero_optimization.*bucket*",
        "zero_optimization.*reduce_scatter", "zero_optimization.allgather_partitions",
        "zero_optimization.contiguous_gradients", "zero_optimization.ignore_unused_parameters",
        "zero_optimization.load_from_fp32_weights", "zero_optimization.memory_efficient_linear",
        "zero_optimization.offload_*", "zero_optimization.overlap_comm",
        "zero_optimization.round_robin_gradients", "zero_optimization.stage3_*",
        "zero_optimization.sub_group_size",
    ),
}
FORMER = {
    "torchtitan": {
        "training.local_batch_size": "training.num_tokens_per_microbatch_per_dp_rank, in tokens",
        "training.batch_size": "training.num_tokens_per_microbatch_per_dp_rank, in tokens",
        "training.global_batch_size": "training.num_tokens_per_train_step, in tokens",
        "training.seq_len": "training.max_context_length",
        "training.tensor_parallel_degree": "parallelism.tensor_parallel_degree",
        "training.data_parallel_degree": "parallelism.data_parallel_shard_degree",
        "parallelism.pipeline_parallel_microbatch_size": "parallelism.num_pp_microbatches, a count",
        "parallelism.enable_async_tensor_parallel": "compile.enable_async_tensor_parallel",
        "parallelism.expert_tensor_parallel_degree": "nothing: expert ranks take in those of tp",
        "parallelism.context_parallel_rotate_method": "nothing",
        "parallelism.disable_loss_parallel": "nothing",
        "activation_checkpoint.mode": "activation_checkpoint, such as FullAC.Config()",
        "activation_checkpoint.selective_ac_option": "activation_checkpoint, SelectiveAC.Config()",
    },
    "megatron": {
        "--batch-size": "--micro-batch-size",
        "--model-parallel-size": "--tensor-model-parallel-size",
        "--checkpoint-activations": "--recompute-activations, or --recompute-granularity",
        "--use-custom-fsdp": "--use-megatron-fsdp",
    },
    "deepspeed": {
        "zero_optimization": "zero_optimization.stage, a number",
        "zero_optimization.cpu_offload": "zero_optimization.offload_optimizer.device",
        "zero_optimization.cpu_offload_param": "zero_optimization.offload_param.device",
        "zero_optimization.stage3_gather_fp16_weights_on_model_save":
            "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    },
}
