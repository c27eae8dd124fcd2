"""What makes the result of a Python transform volatile, and what does not."""

from __future__ import annotations

import pytest

from controlplane.core.python.code import analyse
from controlplane.core.python.volatility import VolatileCode

pytestmark = pytest.mark.unit


def constructs(text: str, *requirements: str, **others: str) -> list[str]:
    modules = {"main.py": f"{text}\ndef transform(spark, df): return df\n", **others}
    return [v.construct for v in analyse(modules, "main.py", "transform", requirements).volatile]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import requests", ["import of requests, which is not declared in `requirements:`"]),
        ("from foo.bar import baz", ["import of foo.bar, which is not declared in `requirements:`"]),
        ("import random", ["import of random"]),
        ("from random import choice", ["import of random"]),
        ("import subprocess, socket", ["import of socket", "import of subprocess"]),
        ("import urllib.request", ["import of urllib.request"]),
        ("from urllib import request", ["import of urllib.request"]),
        ("import http.client", ["import of http.client"]),
        ("import time\nx = time.time()", ["time.time"]),
        ("from time import time as t\nx = t()", ["time.time"]),
        ("import datetime as d\nx = d.datetime.now()", [".now()"]),
        ("from datetime import date\nx = date.today()", [".today()"]),
        ("from datetime import datetime\nx = datetime.utcnow()", [".utcnow()"]),
        ("import os\nx = os.environ['A']", ["os.environ"]),
        ("from os import getenv\nx = getenv('A')", ["os.getenv"]),
        ("x = open('f')", ["open()"]),
        ("from pathlib import Path\nx = Path('f').read_text()", ["pathlib.Path"]),
        ("import uuid\nx = uuid.uuid4()", ["uuid.uuid4"]),
        ("x = spark.read.csv('f')", ["spark.read"]),
        ("x = df.sparkSession.table('t')", ["spark.table"]),
        ("from pyspark.sql import SparkSession\nx = SparkSession.builder.getOrCreate().sql('SELECT 1')", ["spark.sql"]),
        ("from pyspark.sql import functions as F\nx = F.rand()", ["rand()"]),
        ("import pyspark.sql.functions as F\nx = F.collect_list('a')", ["collect_list()"]),
        ("import pyspark.sql.functions\nx = pyspark.sql.functions.uuid()", ["uuid()"]),
        ("from pyspark.sql.functions import first as f\nx = f('a')", ["first()"]),
        ("from pyspark.sql.functions import *\nx = monotonically_increasing_id()", ["monotonically_increasing_id()"]),
        ("from pyspark.sql import functions as F\nx = F.current_date()", ["current_date()"]),
        ("x = df.limit(3)", [".limit() without orderBy"]),
        ("x = df.sample(0.1)", [".sample()"]),
        ("x = df.dropDuplicates(['a'])", [".dropDuplicates() with columns"]),
        ("df.write.parquet('x')", [".write"]),
        ("x = df.selectExpr('a', 'now() AS n')", ["now() in SQL"]),
        ("x = df.where('d > current_date')", ["current_date() in SQL"]),
        ("import numpy as np\nx = np.random.rand()", ["numpy.random"]),
        ("import numpy as np\nx = np.datetime64('now')", ["datetime64('now')"]),
        ("import numpy as pd\nx = pd.Timestamp('today')", ["Timestamp('today')"]),
        ("from datetime import datetime\nx = list(map(datetime.now, [None]))", [".now()"]),
        ("import time\nx = time.perf_counter_ns()", ["time.perf_counter_ns"]),
        ("from pyspark.sql import functions as F\nx = F.unix_timestamp()", ["unix_timestamp()"]),
        ("x = df.selectExpr('unix_timestamp() AS n')", ["unix_timestamp() in SQL"]),
        ("import numpy as np\nx = np.random.default_rng().normal()", ["numpy.random"]),
        ("from numpy.random import RandomState as R\nx = R(None)", ["numpy.random"]),
        ("import numpy as np\nx = np.random.Generator(np.random.PCG64())", ["numpy.random"]),
        ("import numpy as np\nnp.random.seed(7)", ["numpy.random"]),
        ("import pandas as pd\nx = df.toPandas().sample(frac=0.1, random_state=None)", [".sample()"]),
        ("import pyspark.pandas as ps\nx = ps.DataFrame(df).sample(frac=0.1, random_state=7)", [".sample()"]),
        ("import pandas as pd\nx = pd.Timestamp.now()", [".now()"]),
        ("import pandas as pd\nx = pd.read_csv('f.csv')", ["pandas.read_csv"]),
        ("from pyspark import pandas as ps\nx = ps.read_table('t')", ["pyspark.pandas.read_table"]),
        ("import pyarrow.parquet as pq\nx = pq.read_table('f')", ["pyarrow.parquet"]),
        ("import numpy as np\nx = np.load('f')", ["numpy.load"]),
    ],
)  # fmt: skip
def test_volatile(text: str, found: list[str]) -> None:
    assert constructs(text, "numpy==2.1") == found


@pytest.mark.parametrize(
    "text",
    [
        "import json, math, re, collections.abc\nfrom urllib.parse import quote",
        "from datetime import datetime, timedelta\nx = datetime(2013, 1, 1)",
        "import os.path\nx = os.path.join('a', 'b')",
        "from pyspark.sql import DataFrame, functions as F\nx = df.select(F.upper('a'))",
        "x = df.orderBy('a').limit(3)",
        "x = df.dropDuplicates()",
        "x = df.where('a > 1 AND rand = 2').read",
        "import lib\nfrom transforms.lib2 import x\nfrom . import lib\nfrom .lib import y",
        "import numpy as np\nimport sklearn.linear_model\nx = np.sum([1])",
        "first = rand = 1\nx = first + rand",
        "import numpy as np\nimport time\nx = np.datetime64('2013-01-01')\ntime.sleep(0)",
        "from pyspark.sql import functions as F\nx = F.unix_timestamp('d')",
        "x = df.now",
        "import pandas as pd\nx = pd.DataFrame({'a': [1]}).sort_values('a').head(1)",
        "import pyspark.pandas as ps\nimport pandas, pyarrow as pa, pyarrow.compute\nx = pa.table({'a': [1]})",
        "import pandas as pd\nx = pd.DataFrame({'a': [1]}).sample(n=1, random_state=7)",
        "import numpy as np\nx = np.random.default_rng(7).normal()\ny = np.random.Generator(np.random.PCG64(seed=7))",
        "from numpy.random import default_rng\ndef make(params): return default_rng(params['seed'])",
        "import pandas as pd\nfrom pyspark.sql.functions import pandas_udf\ny = df.mapInPandas(f, 'a INT')",
    ],
)
def test_not_volatile(text: str) -> None:
    others = {"lib.py": "y = 1", "transforms/lib2.py": "x = 1"}
    assert constructs(text, "numpy>=2", "scikit-learn==1.5.0", **others) == []


def test_places() -> None:
    modules = {
        "main.py": "import lib\ndef transform(df):\n    return df.limit(1)\n",
        "lib.py": "\nimport random\n",
    }
    assert analyse(modules, "main.py", "transform").volatile == (
        VolatileCode("import of random", "lib.py", 2),
        VolatileCode(".limit() without orderBy", "main.py", 3),
    )
