"""Files of training programs: as people write them, and what is wrong with others."""

# How people write these files: sections as calls, products, variables, arrays, further options.
RECIPE = """
from torchtitan.trainer import Trainer

def run() -> Trainer.Config:
    model_spec = model_registry("8B", attn_backend="flex")
    return Trainer.Config(
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192, steps=100
        ),
        parallelism=ParallelismConfig(tensor_parallel_degree=2, pipeline_parallel_degree=4,
                                      num_pp_microbatches=8, pipeline_parallel_schedule="1F1B"),
        activation_checkpoint=FullAC.Config(),
    )
"""
SCRIPT = """
# a run of 64
TP=4
MODEL=(
    --num-layers 30 --hidden-size 4096   # narrow
    --decoder-first-pipeline-num-layers 6
    --decoder-last-pipeline-num-layers 8
)
torchrun --nproc_per_node=8 --nnodes ${NODES:-8} --master_addr $HOST pretrain_gpt.py \\
    ${MODEL[@]} --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size 4 \\
    --micro-batch-size 1 --global-batch-size 256 --seq-length 4096 --lr 3e-4 --min-lr=-1 \\
    --use-torch-fsdp2 --recompute-activations --attention-backend local --data-path $DATA
"""
JSON = """
{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true},
 "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 1,
                       "offload_optimizer": {"device": "cpu", "pin_memory": true}}}
"""


def recipe(*lines: str, base: str = "llama3_8b") -> str:
    settings = "".join(f"    config.{line}\n" for line in lines)
    return f"def run():\n    config = {base}()\n{settings}    return config\n"


FULL = (
    '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, '
    '"gradient_accumulation_steps": 1, "zero_optimization": {%s}}'
)
REFUSED = {
    "a kind": ("nemo", "", r"kind is 'nemo', but must be one of torchtitan, megatron, deepspeed"),
    "TOML": (
        "torchtitan",
        "[model]\nname = 'llama3'\n[training]\nlocal_batch_size = 8\n",
        r"training.local_batch_size is 8, .* now training.num_tokens_per_microbatch_per_dp_rank",
    ),
    "TOML with names that still exist": (
        "torchtitan",
        "[parallelism]\ntensor_parallel_degree = 8\n",
        r"parallelism.tensor_parallel_degree is 8, .* of another version: now a function",
    ),
    "a former name": (
        "torchtitan",
        recipe("training.seq_len = 4096"),
        r"training.seq_len is 4096, but .* now training.max_context_length",
    ),
    "a misspelt name": (
        "torchtitan",
        recipe("parallelism.tensor_paralel_degree = 8"),
        r"tensor_paralel_degree is 8, but no such .*near it are parallelism.tensor_parallel_degree",
    ),
    "a degree that is none": (
        "torchtitan",
        recipe("parallelism.tensor_parallel_degree = 0"),
        r"tensor_parallel_degree is 0, but must be a whole number of at least 1",
    ),
    "an expression": (
        "torchtitan",
        recipe("parallelism.tensor_parallel_degree = width"),
        r"tensor_parallel_degree is 'width', but must be a whole number",
    ),
    "replicas of shards": (
        "torchtitan",
        recipe(
            "parallelism.data_parallel_shard_degree = 4",
            "parallelism.data_parallel_replicate_degree = 2",
        ),
        r"data_parallel_replicate_degree is 2, but must be 1 where replicas are sharded",
    ),
    "GPUs that nobody says": (
        "torchtitan",
        recipe("training.num_tokens_per_train_step = 8192"),
        r"gpus is None, but must be the number of GPUs of the run, which the file does not say",
    ),
    "another order": (
        "torchtitan",
        recipe(
            "parallelism.data_parallel_shard_degree = 4",
            "parallelism.pipeline_parallel_degree = 2",
            "parallelism.pipeline_parallel_schedule = 'GPipe'",
        ),
        r"pipeline_parallel_schedule is 'GPipe', but must be one of '1F1B', 'Interleaved1F1B'",
    ),
    "another policy": (
        "torchtitan",
        recipe(
            "parallelism.data_parallel_shard_degree = 4",
            "activation_checkpoint = MemoryBudgetAC.Config(memory_budget=0.5)",
        ),
        r"activation_checkpoint is 'MemoryBudgetAC.Config\(memory_budget=0.5\)', but must be",
    ),
    "a pipeline that runs twice in a step": (
        "torchtitan",
        recipe(
            "parallelism.data_parallel_shard_degree = 1",
            "parallelism.pipeline_parallel_degree = 2",
            "training.num_tokens_per_train_step = 16384",
        ),
        r"num_tokens_per_train_step is 16384, but must be 8192: .* once in a step",
    ),
    "a base that nobody knows": (
        "torchtitan",
        recipe(base="my_model"),
        r"tensor_parallel_degree is not set, and what my_model sets is not known here",
    ),
    "parts that are none": (
        "torchtitan",
        recipe(
            "parallelism.data_parallel_shard_degree = 1",
            "parallelism.pipeline_parallel_degree = 2",
            "parallelism.module_fqns_per_model_part = 3",
        ),
        r"module_fqns_per_model_part is 3, but must be lists of names",
    ),
    "a function that returns nothing": (
        "torchtitan",
        "def run(config):\n    config.training.steps = 3\n",
        r"run must return a configuration",
    ),
    "a configuration from elsewhere": (
        "torchtitan",
        "def run(config):\n    config.training.steps = 3\n    return config\n",
        r"config is not made by a call in run",
    ),
    "two functions": ("torchtitan", recipe() + recipe(), r"one function .* but there is run, run"),
    "no Python": ("torchtitan", "def run(:\n", r"line 1 is no Python"),
    "Megatron's former name": (
        "megatron",
        "--batch-size 8",
        r"--batch-size is '8', but .* now --micro-batch-size",
    ),
    "Megatron's unknown name": (
        "megatron",
        "--tensor-parallel-num-weight-shards 16",
        r"--tensor-parallel-num-weight-shards is '16', but no such option is read here",
    ),
    "a word for a number": (
        "megatron",
        "--tensor-model-parallel-size eight",
        r"--tensor-model-parallel-size is 'eight', but must be a whole number",
    ),
    "Megatron's GPUs": ("megatron", "--tensor-model-parallel-size 8", r"gpus is None"),
    "a script without arguments": (
        "megatron",
        "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py $ALL",
        r"--micro-batch-size is None, but must be given",
    ),
    "GPUs that do not divide": (
        "megatron",
        "--nnodes 1 --nproc-per-node 8 p.py --tensor-model-parallel-size 3",
        r"gpus is 8, but must be a multiple of --tensor-model-parallel-size x .* which is 3",
    ),
    "a layout of other layers": (
        "megatron",
        "--nnodes 1 --nproc-per-node 2 --pipeline-model-parallel-size 2 "
        "--pipeline-model-parallel-layout 'Et*2|t,mL'",
        r"--pipeline-model-parallel-layout is 'Et\*2\|t,mL', but must be of E, t, L",
    ),
    "experts cut otherwise": (
        "megatron",
        "--nnodes 1 --nproc-per-node 8 --micro-batch-size 1 --tensor-model-parallel-size 4 "
        "--expert-tensor-parallel-size 1",
        r"--expert-tensor-parallel-size is '1', but must be --tensor-model-parallel-size",
    ),
    "some layers repeated": (
        "megatron",
        "--nnodes 1 --nproc-per-node 8 --micro-batch-size 1 "
        "--recompute-granularity full --recompute-method block",
        r"--recompute-method is 'block', but must be one of 'uniform'",
    ),
    "half an optimizer sent away": (
        "megatron",
        "--nnodes 1 --nproc-per-node 8 --micro-batch-size 1 "
        "--optimizer-cpu-offload --optimizer-offload-fraction 0.5",
        r"--optimizer-offload-fraction is '0.5', but must be one of",
    ),
    "a quote that stays open": ("megatron", "--lr '3", r"the text is no list of arguments"),
    "auto": (
        "deepspeed",
        '{"train_micro_batch_size_per_gpu": "auto"}',
        r"train_micro_batch_size_per_gpu is 'auto', but must be a whole number",
    ),
    "a stage that is none": (
        "deepspeed",
        FULL % '"stage": 4',
        r"zero_optimization.stage is 4, but must be one of 0, 1, 2, 3",
    ),
    "an offload to disk": (
        "deepspeed",
        FULL % '"offload_optimizer": {"device": "nvme"}',
        r"offload_optimizer.device is 'nvme', but must be one of 'none', 'cpu'",
    ),
    "DeepSpeed's former name": (
        "deepspeed",
        '{"zero_optimization": {"cpu_offload": true}}',
        r"cpu_offload is True, but .* now zero_optimization.offload_optimizer.device",
    ),
    "DeepSpeed's unknown name": (
        "deepspeed",
        '{"zero_optimization": {"mics_shard_size": 8}}',
        r"zero_optimization.mics_shard_size is 8, but no such option is read here",
    ),
    "batches that do not multiply": (
        "deepspeed",
        '{"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4, '
        '"gradient_accumulation_steps": 2}',
        r"train_batch_size is 30, but must be a multiple of .* which is 8",
    ),
    "no batch": ("deepspeed", "{}", r"train_micro_batch_size_per_gpu is None, but must be given"),
    "a name that stands twice": (
        "deepspeed",
        '{"train_batch_size": 8, "train_batch_size": 16}',
        r"train_batch_size stands twice",
    ),
    "no JSON": ("deepspeed", "{,}", r"line 1 is no JSON"),
    "no object": ("deepspeed", "[1]", r"the file is \[1\], but must be an object"),
}
