from qt_bert.results.probe import OnSource, Stability
from qt_bert.text import Text

LOOSE = Stability(
    overlap=0.37123456,
    low=0.2,
    high=0.6,
    halves=0.04,
    chance_mean=0.1,
    chance_95=0.2,
    k=5,
    n_queries=60,
    resamples=100,
    verdict="not stable",
    sources=(OnSource(source=Text("验证集", "validation"), overlap=0.4, n_queries=50),),
)
