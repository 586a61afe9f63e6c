"""Small trace files of every format, for the readers' tests."""

import gzip
from pathlib import Path

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:06.4799600,110,27
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,230,1317,API log
118,ChatGPT,417,0,417,Conversation log
"""
NEUTRAL = """arrival_s,model,tenant,prompt_tokens,output_tokens
0.000000,chat,a,374,44
4.314579,chat,b,396,109
4.541877,chat,a,879,55
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
{"timestamp": 3500, "input_length": 7236, "output_length": 794, "hash_ids": []}
"""
SERVEGEN = """window_s,model,tenant,requests,rate_rps,cv,dist,shape,scale
0,m,c0,600,1.0,1.0,Gamma,1.0,1.0
0,m,c1,1200,2.0,3.0,Weibull,0.5,0.5
600,m,c0,1200,2.0,0.5,Gamma,4.0,0.1
"""


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """The text as a file in `folder`, gzipped where the name ends in .gz."""
    path = folder / name
    content = text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def edited(text: str, line: int, old: str, new: str) -> str:
    """The text with `old` replaced on one line (1 is the first), where it must stand."""
    lines = text.splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    return "\n".join(lines) + "\n"
