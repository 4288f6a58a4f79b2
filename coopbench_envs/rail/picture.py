"""Pictures of a railway: rails, trains as arrows, and where they want to go."""


def picture(constants, fields, agents):
    raise NotImplementedError


def text(constants, fields, agents):
    raise NotImplementedError
