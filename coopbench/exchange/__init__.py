"""Exchange: results out to marl-eval, and results of other programs in."""

from coopbench.exchange.imports import SCALES as SCALES
from coopbench.exchange.imports import import_results as import_results
from coopbench.exchange.marl_eval_export import obstacles as obstacles
from coopbench.exchange.marl_eval_export import save_marl_eval as save_marl_eval
from coopbench.exchange.marl_eval_export import to_marl_eval as to_marl_eval
