"""The section about what is kept of media."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mmrl.config.section import PositiveFloat, Section


class CacheSection(Section):
    dir: str = Field(default=".mmrl_cache", description="cache folder, relative to the current directory")
    on_miss: Literal["build", "error"] = Field(
        default="build", description="a medium without entry: open and store it, or stop"
    )
    verify: Literal["first", "always", "never"] = Field(
        default="first", description="when checksums are compared: on the first open of an entry, on each, or never"
    )
    max_gb: PositiveFloat | None = Field(
        default=None,
        description="gigabytes of pixels that `mmrl preprocess` may fill the folder to; more is refused before it "
        "begins; null: as the disk allows",
    )
    compress: Literal["none", "zstd"] = Field(
        default="none", description="pixels that are written: as they are, or smaller and slower to read, without loss"
    )
    remote: str | None = Field(
        default=None,
        description="object storage behind the folder: a URL of fsspec such as s3://bucket/cache or gs://bucket/cache; "
        "entries are fetched from it and uploaded to it",
    )
    max_local_gb: PositiveFloat | None = Field(
        default=None,
        description="gigabytes that the folder keeps of a remote, the last used; null: all that was read or written",
    )
    level: Literal["auto", "features", "pixels"] = Field(
        default="auto",
        description="features: what vision tower and projector make of a medium is kept, and they do not run; auto: "
        "where all of them are frozen, else pixels",
    )
    feature_dtype: Literal["model", "float32", "bfloat16", "float16"] = Field(
        default="model", description="type features are stored in; model: that of the model, which loses nothing"
    )
    max_feature_gap: PositiveFloat = Field(
        default=0.02,
        description="largest difference of log-probs with features and with pixels, measured on the first batch",
    )
