"""Exchange: results out to JSON and CSV, and results of other programs in."""

from coopbench.exchange.episodes_csv import save_episodes_csv as save_episodes_csv
from coopbench.exchange.exports import EXPORTERS as EXPORTERS
from coopbench.exchange.flat_json import save_flat as save_flat
from coopbench.exchange.imports import IMPORTERS as IMPORTERS
from coopbench.exchange.imports import SCALES as SCALES
from coopbench.exchange.imports import import_results as import_results
from coopbench.exchange.marl_eval_export import obstacles as obstacles
from coopbench.exchange.marl_eval_export import save_marl_eval as save_marl_eval
from coopbench.exchange.marl_eval_export import to_marl_eval as to_marl_eval
from coopbench.exchange.runs import ABSOLUTE as ABSOLUTE
from coopbench.report.serialise import frame as frame
