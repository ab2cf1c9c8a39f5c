from delaybridge_plugin import serve
from sink import definition

serve(definition)
