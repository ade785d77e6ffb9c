# Where every public name of `tvae` is defined; `__init__.py` reads this file.
from . import actions as actions
from . import data as data
from . import evaluation as evaluation
from . import experiments as experiments
from . import layers as layers
from . import models as models
from . import networks as networks
from . import objective as objective
from . import paper as paper
from . import runs as runs
from . import seeding as seeding
from . import training as training
from . import transforms as transforms
from .estimator import TVAEEmbedding as TVAEEmbedding
from .evaluation import evaluate as evaluate
from .models import TVAE as TVAE
from .models import VAE as VAE
from .runs.released import pretrained as pretrained
from .runs.trained import load as load
from .seeding import generator as generator
from .training import RunConfig as RunConfig
from .training import fit as fit
from .training import train as train
from .transforms import Triplets as Triplets

__version__: str
