"""Parsing of corpora in shards, on one or many machines: plan, parse, commit.

    plan.py    inputs, and the shards into which they are cut
    pieces.py  reading the pieces of a shard
    shard.py   parsing one shard, and committing it
    folder.py  the output folder: files that appear whole, one driver at a time
    driver.py  giving shards to workers, with retries, status and summary
    local.py   workers that are processes of this machine
    ray.py     workers that are actors of a Ray cluster
    merge.py   the manifest of a finished run, and one file per input

The output of a shard depends only on its inputs, the model and the settings. Engines only schedule the shards.
"""
