def picture(constants, fields, agents): raise NotImplementedError
def text(constants, fields, agents): raise NotImplementedError
